/* SPDX-License-Identifier: MIT
 *
 * Options of the environment count also where something allocates before all constructors, and before the C library
 * knows the environment: in a program that the archive is linked into.
 */
#include "testing.h"

#include <hakmem.h>

static void *early;

static void allocate(void) { early = test_opaque(malloc(10)); }

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = allocate;

int main(void) {
    char value[64] = "";
#if !defined(__GLIBC__)
    if (early == NULL)
        test_skip("the C library runs nothing before constructors");
#endif
    CHECK(early != NULL);
    CHECK(hak_option_get("PURGE_DELAY", value, sizeof value) == 0);
    CHECK_SAY(strcmp(value, "123") == 0, "the delay is %s", value);
    free(early);
    return TEST_PASS;
}
