/* SPDX-License-Identifier: MIT
 *
 * A program that gives up memory in a rare way and then sleeps: what it no longer has goes back all the same. Nothing
 * but that way can wake the helper.
 *
 *   idle_ways shrink|expand     large blocks become shorter in place, by realloc and by hak_expand
 *   idle_ways blocks            blocks of a heap of the program's own, freed one by one
 *   idle_ways heaps             many small heaps end
 *   idle_ways large             large blocks are freed; at the levels that keep them in a way of their own
 */
#include "testing.h"

enum { RUNS = 128, RUN_BYTES = 2 << 20, SHORT_BYTES = 300000, BLOCKS = 1 << 15, BLOCK_BYTES = 4000 };
enum { HEAPS = 256, HEAP_BLOCKS = 200, LARGE = 300, LARGE_BYTES = 500000, WAIT_MS = 10000, SLACK_KIB = 24 << 10 };

static void *blocks[BLOCKS];

static void *written(void *block, size_t size) { return block != NULL ? memset(block, 1, size) : NULL; }

static long shrink(bool expand) {
    for (unsigned i = 0; i < RUNS; i++)
        CHECK((blocks[i] = written(malloc(RUN_BYTES), RUN_BYTES)) != NULL);
    for (unsigned i = 0; i < RUNS; i++)
        CHECK(expand ? hak_expand(blocks[i], SHORT_BYTES) != 0 : (blocks[i] = realloc(blocks[i], SHORT_BYTES)) != NULL);
    return (long)RUNS * (SHORT_BYTES / 1024 + 64);
}

static long free_blocks(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    CHECK(heap != NULL);
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = written(hak_heap_malloc(heap, BLOCK_BYTES), BLOCK_BYTES)) != NULL);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return 0;
}

static long end_heaps(void) {
    static hak_heap_t *heaps[HEAPS];
    for (unsigned i = 0; i < HEAPS; i++) {
        CHECK((heaps[i] = hak_heap_new(NULL)) != NULL);
        for (unsigned k = 0; k < HEAP_BLOCKS; k++)
            CHECK(written(hak_heap_malloc(heaps[i], BLOCK_BYTES), BLOCK_BYTES) != NULL);
    }
    for (unsigned i = 0; i < HEAPS; i++)
        hak_heap_destroy(heaps[i]);
    return 0;
}

static long free_large(void) {
    for (unsigned i = 0; i < LARGE; i++)
        CHECK((blocks[i] = written(malloc(LARGE_BYTES), LARGE_BYTES)) != NULL);
    for (unsigned i = 0; i < LARGE; i++)
        free(blocks[i]);
    return 0;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    CHECK(argc == 2);
    memset(blocks, 1, sizeof blocks);
    const char *way = argv[1];
    long base = test_rss_kib();
    long live = strcmp(way, "shrink") == 0   ? shrink(false)
                : strcmp(way, "expand") == 0 ? shrink(true)
                : strcmp(way, "blocks") == 0 ? free_blocks()
                : strcmp(way, "heaps") == 0  ? end_heaps()
                                             : free_large();
    long now = test_rss_kib() - base, most = live + SLACK_KIB;
    for (test_wait_t wait = test_wait_for(WAIT_MS); now > most && test_wait_more(&wait);)
        now = test_rss_kib() - base;
    CHECK_SAY(now <= most, "%s: %ld KiB are left, %ld live", way, now, live);
    return TEST_PASS;
}
