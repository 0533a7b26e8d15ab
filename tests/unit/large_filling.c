/* SPDX-License-Identifier: MIT
 *
 * Long runs get huge pages when the program has filled two such runs in a row, and lose them when it uses a page here
 * and there; one in eight gets small pages, to be looked at. What is asked for is in the superslabs' records, whatever
 * the kernel does with it.
 */
#include "large/filling.h"
#include "large/large.h"
#include "rooms.h"
#include "superslab/superslab.h"

static large_counts_t counts;

#define LONG_RUN (64 * HK_MIB) /* of many superslabs */

static char *take(size_t size) {
    bool zeroed = false;
    char *block = large_alloc(&counts, size, 1, &zeroed);
    CHECK(block != NULL && zeroed && all_zeros(block, 4096));
    return block;
}

static size_t huge_superslabs(const char *block, size_t size) {
    size_t huge = 0, first = map_slot(block) / HK_SLOTS_PER_SUPERSLAB;
    for (size_t i = 0; i < size / HK_SUPERSLAB_SIZE; i++)
        huge += superslab_view(first + i).huge;
    return huge;
}

/* Takes a run, writes a byte each `step` bytes of its first `used`, frees it. True when it was to have huge pages. */
static bool cycle(size_t size, size_t used, size_t step) {
    char *block = take(size);
    size_t huge = huge_superslabs(block, size);
    CHECK(huge == 0 || huge == size / HK_SUPERSLAB_SIZE);
    for (size_t at = 0; at < used; at += step)
        block[at] = 1;
    CHECK(large_free(&counts, block, true));
    (void)superslab_purge(SIZE_MAX);
    return huge > 0;
}

static unsigned huge_of(unsigned runs, size_t size, size_t used, size_t step) {
    unsigned huge = 0;
    for (unsigned i = 0; i < runs; i++)
        huge += cycle(size, used, step);
    return huge;
}

static void filled_runs(void) {
    CHECK_EQ(huge_of(2, LONG_RUN, LONG_RUN / 4, 4096), 0); /* one that is filled is not enough */
    CHECK_EQ(huge_of(16, LONG_RUN, LONG_RUN / 4, 4096), 14);
    CHECK_EQ(huge_of(8, 2 * LONG_RUN, LONG_RUN, 4096), 7);
    CHECK_EQ(huge_of(8, 8 * LONG_RUN, 4096, 4096), 0); /* much longer than any that was filled */
}

/* Small pages are needed to see that a run is not filled: the one in eight has them. */
static void sparse_runs(void) {
    CHECK(huge_of(8, LONG_RUN, LONG_RUN / 2, 64 * HK_KIB) < 8);
    CHECK_EQ(huge_of(16, LONG_RUN, LONG_RUN / 2, 64 * HK_KIB), 0);
    CHECK_EQ(huge_of(1, LONG_RUN, LONG_RUN, 4096), 0);
    CHECK(huge_of(9, LONG_RUN, LONG_RUN, 4096) > 0); /* learned anew */
}

/* One table that is filled says nothing of other runs, like those of which each thread uses a few pages. */
static void one_among_others(void) {
    unsigned huge = cycle(LONG_RUN, LONG_RUN, 4096);
    huge += huge_of(16, LONG_RUN, LONG_RUN, 5 * HK_MIB);
    huge += cycle(LONG_RUN, LONG_RUN, 4096);
    huge += huge_of(16, LONG_RUN, LONG_RUN, 5 * HK_MIB);
    CHECK_EQ(huge, 0);
}

/* A run that is looked at when the next is asked for, and again when it is freed, counts once. */
static void one_seen_twice(void) {
    char *filled = take(LONG_RUN);
    memset(filled, 1, LONG_RUN);
    char *next = take(LONG_RUN);
    CHECK(large_free(&counts, filled, true));
    (void)superslab_purge(SIZE_MAX);
    CHECK_EQ(huge_superslabs(take(LONG_RUN), LONG_RUN), 0);
    CHECK(large_free(&counts, next, true));
}

/* Huge pages are resident as a whole: a table that grew in them says nothing. */
static void grown_in_huge_pages(void) {
    char *table = NULL;
    for (unsigned i = 0; i < 100; i++)
        memset(take(2 * HK_MIB), 1, 2 * HK_MIB);
    for (unsigned i = 0; i < 40 && (table == NULL || huge_superslabs(table, 4 * HK_MIB) < 2); i++)
        table = take(3 * HK_MIB);
    CHECK(huge_superslabs(table, 4 * HK_MIB) == 2);
    CHECK(!filling_expected(12 * HK_MIB));
    char *grown = large_resize(&counts, table, 10 * HK_MIB, false);
    CHECK(grown != NULL);
    for (size_t at = 0; at < 10 * HK_MIB; at += HK_MIB)
        grown[at] = 1;
    CHECK(large_free(&counts, grown, true));
    CHECK(!filling_expected(12 * HK_MIB));
}

/* The newest of runs that are all kept is looked at when the next is asked for. */
static void kept_runs(void) {
    unsigned huge = 0;
    for (unsigned i = 0; i < 20; i++) {
        char *run = take(8 * HK_MIB);
        huge += huge_superslabs(run, 8 * HK_MIB) != 0;
        memset(run, 1, 8 * HK_MIB);
    }
    CHECK(huge >= 14 && huge < 20);
}

static void start(const char *huge) {
    char *environment[] = {(char *)(uintptr_t)huge, NULL};
    hk_options_init(environment);
    CHECK_EQ(region_init(), 0);
    map_init();
    classes_init();
}

static void switched_off(void) {
    start("HAKMEM_HUGE=off");
    CHECK_EQ(huge_of(8, LONG_RUN, LONG_RUN, 4096), 0);
}

static void on_grown_in_huge_pages(void) {
    start("HAKMEM_HUGE=auto");
    grown_in_huge_pages();
}

static void on_one_among_others(void) {
    start("HAKMEM_HUGE=auto");
    one_among_others();
}

static void on_one_seen_twice(void) {
    start("HAKMEM_HUGE=auto");
    one_seen_twice();
}

static void on_kept_runs(void) {
    start("HAKMEM_HUGE=auto");
    kept_runs();
}

int main(void) {
    in_child(switched_off);
    in_child(on_grown_in_huge_pages);
    in_child(on_one_among_others);
    in_child(on_one_seen_twice);
    in_child(on_kept_runs);
    start("HAKMEM_HUGE=auto");
    filled_runs();
    sparse_runs();
    CHECK_EQ(superslab_check(), 0);
    return CHECK_PASS;
}
