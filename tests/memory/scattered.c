/* SPDX-License-Identifier: MIT
 *
 * 64 MiB of small blocks, nine of ten freed at random, and then not a single call: within three seconds resident memory
 * is near the floor, the pages that hold a byte of a live block. After the rest is freed too, a tenth of the peak at
 * most.
 */
#include "testing.h"

enum { MOST = 1 << 20, SLACK_KIB = 4096 };

static char *blocks[MOST];
static uint16_t sizes[MOST];

static int by_address(const void *a, const void *b) {
    const unsigned *left = (const unsigned *)a, *right = (const unsigned *)b;
    return blocks[*left] < blocks[*right] ? -1 : blocks[*left] > blocks[*right];
}

static long floor_kib(unsigned count) {
    unsigned *order = (unsigned *)test_pages(count * sizeof *order), live = 0;
    for (unsigned i = 0; i < count; i++)
        if (blocks[i] != NULL)
            order[live++] = i;
    qsort(order, live, sizeof *order, by_address);
    uintptr_t last = 0;
    long pages = 0;
    for (unsigned i = 0; i < live; i++) {
        uintptr_t from = (uintptr_t)blocks[order[i]] / 4096,
                  to = ((uintptr_t)blocks[order[i]] + sizes[order[i]] - 1) / 4096;
        from = from <= last ? last + 1 : from;
        pages += to >= from ? (long)(to - from + 1) : 0;
        last = to > last ? to : last;
    }
    return pages * 4;
}

static long rest(long base, long enough) {
    for (test_wait_t wait = test_wait_for(3000); test_rss_kib() - base > enough && test_wait_more(&wait);)
        ;
    return test_rss_kib() - base;
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    memset(blocks, 1, sizeof blocks);
    memset(sizes, 1, sizeof sizes);
    uint64_t random = 42;
    long base = test_rss_kib();
    unsigned count = 0;
    for (size_t bytes = 0; bytes < 64 * TEST_MIB; count++) {
        sizes[count] = (uint16_t)(16 + test_random_below(&random, 1500));
        blocks[count] = (char *)malloc(sizes[count]);
        memset(blocks[count], 1, sizes[count]);
        bytes += sizes[count];
    }
    long peak = test_rss_kib() - base;
    for (unsigned i = 0; i < count; i++)
        if (test_random_below(&random, 10) != 0) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    long least = floor_kib(count), most = least + least / 8 + SLACK_KIB, scattered = rest(base, most);
    for (unsigned i = 0; i < count; i++)
        free(blocks[i]);
    long all = rest(base, peak / 10);
    test_say("peak %ld KiB, scattered %ld (floor %ld), all freed %ld\n", peak, scattered, least, all);
    CHECK(scattered <= most);
    CHECK(all <= peak / 10 + SLACK_KIB);
    return TEST_PASS;
}
