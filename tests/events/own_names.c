/* SPDX-License-Identifier: MIT
 *
 * A statically linked program with functions whose names hakmem's own code has too: each calls its own.
 */
#include "testing.h"

int map_init(int value);
int base64_decode(int value);
int heap_limit(int value);

static int calls;

int map_init(int value) { return calls++, value + 1; }
int base64_decode(int value) { return calls++, value + 2; }
int heap_limit(int value) { return calls++, value + 3; }

int main(void) {
    test_alarm(60);
    CHECK(calls == 0); /* the allocator has started by now, without them */
    int *block = malloc(sizeof *block);
    CHECK(hak_owns(block));
    *block = heap_limit(base64_decode(map_init(0)));
    CHECK(*block == 6 && calls == 3);
    block = realloc(block, TEST_MIB);
    CHECK(block != NULL && *block == 6 && calls == 3);
    free(block);
    CHECK_HEAP();
    CHECK(hak_trim() < SIZE_MAX && calls == 3);
    return TEST_PASS;
}
