/* SPDX-License-Identifier: MIT
 *
 * Ten thousand heaps of 1 KiB each, in one size and in several, hold less than 64 KiB of memory each; after their end
 * it comes back; and heaps of one shape that come and go hold no more than the first.
 */
#include "testing.h"

enum { HEAPS = 10000, MOST = 64 * 1024 };

static hak_heap_t *heaps[HEAPS];

static size_t resident(void) {
    uint64_t bytes = 0;
    CHECK_EQ(hak_stat_read("resident", &bytes), 0);
    return (size_t)bytes;
}

/* 1 KiB, in one block or in `pieces` of different sizes. */
static void fill(hak_heap_t *heap, unsigned pieces) {
    CHECK(heap != NULL);
    size_t left = 1024;
    for (unsigned i = 0; i < pieces; i++) {
        size_t size = i + 1 == pieces ? left : left / 3;
        memset(hak_heap_malloc(heap, size), 1, size);
        left -= size;
    }
}

static void of_pieces(unsigned pieces) {
    size_t before = resident();
    for (unsigned i = 0; i < HEAPS; i++) {
        heaps[i] = hak_heap_new(NULL);
        fill(heaps[i], pieces);
    }
    size_t each = (resident() - before) / HEAPS;
    test_say("%u blocks: %zu bytes a heap\n", pieces, each);
    CHECK_SAY(each <= MOST, "%zu bytes", each);
    for (unsigned i = 0; i < HEAPS; i++)
        hak_heap_destroy(heaps[i]);
    (void)hak_trim();
    size_t left = resident() - before;
    test_say("%zu bytes a heap stay\n", left / HEAPS);
    CHECK_SAY(left / HEAPS <= 8192, "%zu bytes", left / HEAPS);
}

static void come_and_go(void) {
    size_t before = resident();
    for (unsigned i = 0; i < HEAPS * 5; i++) {
        hak_heap_t *heap = hak_heap_new(NULL);
        fill(heap, 4);
        hak_heap_destroy(heap);
    }
    CHECK_SAY(resident() <= before + TEST_MIB, "%zu more", resident() - before);
}

int main(void) {
    test_alarm(100);
    hak_free(hak_malloc(10));
    of_pieces(1);
    of_pieces(6);
    come_and_go();
    CHECK_EQ(hak_check(), 0);
    return TEST_PASS;
}
