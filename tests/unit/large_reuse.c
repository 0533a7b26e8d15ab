/* SPDX-License-Identifier: MIT
 *
 * Large blocks: found by any address in them, freed once, and what was freed serves any size with its pages, or goes
 * back at once when that is asked for.
 */
#include "large/large.h"
#include "rooms.h"
#include "superslab_totals.h"
#include "sys/sys.h"

#include <pthread.h>

static large_counts_t counts;

static char *take(size_t size) {
    bool zeroed = false;
    char *block = large_alloc(&counts, size, 1, &zeroed);
    CHECK(block != NULL);
    CHECK((uintptr_t)block % HK_SLOT_SIZE == 0);
    CHECK_EQ(large_size(block), hk_align_up(size, HK_SLOT_SIZE));
    CHECK(large_is_live(block));
    CHECK(!zeroed || all_zeros(block, HK_SLOT_SIZE));
    return block;
}

static char *take_any(size_t size) {
    char *block = large_alloc(&counts, size, 1, NULL);
    CHECK(block != NULL);
    return block;
}

static size_t slots_held(void) {
    superslab_totals_t totals = superslab_totals();
    return totals.superslab_count * HK_SLOTS_PER_SUPERSLAB - totals.free_slots;
}

static void addresses(void) {
    char *block = take(HK_MID_MAX + 1);
    CHECK_EQ(map_lookup(block), HK_MAP_RUN_HEAD);
    CHECK_EQ(map_lookup(block + HK_SLOT_SIZE), HK_MAP_RUN_BODY);
    CHECK_EQ(map_lookup(block + 5 * HK_SLOT_SIZE - 1), HK_MAP_RUN_BODY);
    CHECK(map_lookup(block + 5 * HK_SLOT_SIZE) != HK_MAP_RUN_BODY);
    for (size_t at = 0; at < 5 * HK_SLOT_SIZE; at += 4096)
        CHECK(large_start(block + at) == block);
    CHECK_EQ(counts.live_bytes, (long long)(5 * HK_SLOT_SIZE));
    CHECK(large_free(&counts, block, true));
    CHECK_EQ(counts.live_bytes, 0);
    CHECK_EQ(counts.taken_bytes, 5 * HK_SLOT_SIZE);
}

static void freed_once(void) {
    char *block = take(HK_MIB);
    CHECK(large_free(&counts, block, true));
    CHECK(!large_is_live(block));
    CHECK(!large_free(&counts, block, true));
    CHECK_EQ(map_lookup(block), 0);
    CHECK_EQ(counts.live_bytes, 0);
}

enum { TURNS = 30000, COUNTING = 4 };

/* Without a lock, so that the counts are all that the threads share. */
static void *begin_and_end(void *argument) {
    void *block = large_alloc(argument, HK_SLOT_SIZE, 1, NULL);
    CHECK(block != NULL);
    for (int i = 1; i < TURNS; i++) {
        CHECK(large_end(argument, block));
        CHECK(large_begin(argument, (slot_t)map_slot(block), 1) == block);
    }
    CHECK(large_free(argument, block, true));
    return NULL;
}

static void check_counts(const large_counts_t *sums, size_t runs) {
    CHECK_EQ(sums->allocs, runs);
    CHECK_EQ(sums->frees, runs);
    CHECK_EQ(sums->taken_bytes, runs * HK_SLOT_SIZE);
    CHECK_EQ(sums->live_bytes, 0);
}

/* None is lost where several threads count at once. */
static void counted_by_several(void) {
    static large_counts_t together;
    pthread_t threads[COUNTING];
    for (int i = 0; i < COUNTING; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, begin_and_end, &together), 0);
    for (int i = 0; i < COUNTING; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    check_counts(&together, (size_t)COUNTING * TURNS);
}

static void counted_by_one(void) {
    large_counts_t alone = {.of_one_thread = true};
    (void)begin_and_end(&alone);
    check_counts(&alone, TURNS);
}

/* Free, and known as a run until it is let go; its pages are there, or went meanwhile. */
static void held(bool dirty) {
    (void)superslab_purge(SIZE_MAX);
    char *block = take(HK_MIB);
    CHECK(large_hold(&counts, block));
    CHECK(!large_is_live(block) && !large_hold(&counts, block));
    CHECK_EQ(map_lookup(block), HK_MAP_RUN_HEAD);
    CHECK_EQ(counts.live_bytes, 0);
    large_let_go(block, dirty);
    CHECK_EQ(map_lookup(block), 0);
    CHECK_EQ(superslab_dirty_bytes(), dirty ? HK_MIB : 0);
}

/* What a run leaves behind serves shorter ones, one beside the other, and is never given back for it. */
static void shared_out(void) {
    (void)superslab_purge(SIZE_MAX);
    char *whole = take(20 * HK_MIB);
    memset(whole, 7, 20 * HK_MIB);
    CHECK(large_free(&counts, whole, true));
    CHECK_EQ(superslab_dirty_bytes(), 20 * HK_MIB);
    char *part = take_any(5 * HK_MIB), *other = take_any(15 * HK_MIB);
    CHECK(part >= whole && part + 5 * HK_MIB <= whole + 20 * HK_MIB && *part == 7);
    CHECK(other >= whole && other + 15 * HK_MIB <= whole + 20 * HK_MIB && other[15 * HK_MIB - 1] == 7);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    CHECK_EQ(counts.live_bytes, (long long)(20 * HK_MIB));
    CHECK(large_free(&counts, part, true) && large_free(&counts, other, true));
    /* Freed apart, they are one again. */
    CHECK(take_any(20 * HK_MIB) == whole && *whole == 7);
    CHECK(large_free(&counts, whole, true));
    /* Zeros are not written over so much. */
    bool zeroed = false;
    whole = large_alloc(&counts, 20 * HK_MIB, 1, &zeroed);
    CHECK(zeroed && *whole == 0 && whole[20 * HK_MIB - 1] == 0);
    CHECK(large_free(&counts, whole, true));
    CHECK_EQ(counts.live_bytes, 0);
}

/* Short ones are not said to be zeros, but for fresh pages: whoever wants zeros writes them. */
static void used_again(void) {
    (void)superslab_purge(SIZE_MAX);
    char *block = take(HK_MIB);
    memset(block, 7, HK_MIB);
    CHECK(large_free(&counts, block, true));
    bool zeroed = true;
    CHECK(large_alloc(&counts, HK_MIB, 1, &zeroed) == block);
    CHECK(!zeroed && *block == 7);
    CHECK(large_free(&counts, block, true));
}

/* Whole superslabs of a run that nobody is to use again go at once. */
static void not_for_reuse(void) {
    (void)superslab_purge(SIZE_MAX);
    char *block = take(20 * HK_MIB);
    memset(block, 7, 20 * HK_MIB);
    CHECK(large_free(&counts, block, false));
    CHECK(superslab_dirty_bytes() < 2 * HK_SUPERSLAB_SIZE);
    (void)superslab_purge(SIZE_MAX);
}

int main(void) {
    start_slab();
    addresses();
    freed_once();
    counted_by_several();
    counted_by_one();
    held(true);
    held(false);
    used_again();
    shared_out();
    not_for_reuse();
    CHECK_EQ(slots_held(), 0);
    CHECK_EQ(superslab_check(), 0);
    return CHECK_PASS;
}
