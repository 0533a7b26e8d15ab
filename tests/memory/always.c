/* SPDX-License-Identifier: MIT
 *
 * Where the kernel gives huge pages to whoever does not refuse (`always`: always.py switches it on), memory that is
 * used in part has none: neither that of new blocks, nor what buffers leave behind that were moved while they grew.
 */
#include "testing.h"

enum { BUFFERS = 4, BLOCK = 300 * 1024, BLOCKS = 2000, HUGE_KIB_MAX = 4096 };

static void *blocks[BLOCKS];

static void use_in_part(const char *when) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK);
        CHECK(blocks[i] != NULL);
        *(volatile char *)blocks[i] = 1;
    }
    CHECK_SAY(test_huge_kib() <= HUGE_KIB_MAX, "%ld KiB in huge pages %s", test_huge_kib(), when);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

/* Each in the way of the next; touched at their beginnings only. */
static void grow_buffers(void) {
    char *buffers[BUFFERS] = {NULL};
    for (size_t size = 2 * TEST_MIB; size <= 64 * TEST_MIB; size *= 2)
        for (unsigned i = 0; i < BUFFERS; i++) {
            buffers[i] = realloc(buffers[i], size);
            CHECK(buffers[i] != NULL);
            *(volatile char *)buffers[i] = 1;
        }
    for (unsigned i = 0; i < BUFFERS; i++)
        free(buffers[i]);
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    grow_buffers();
    use_in_part("where buffers were moved from, and of new blocks");
    return TEST_PASS;
}
