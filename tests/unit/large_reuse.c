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

enum { TURNS = 3000 };

static void *take_and_free(void *argument) {
    for (int i = 0; i < TURNS; i++) {
        void *block = large_alloc(argument, HK_SLOT_SIZE, 1, NULL);
        CHECK(block != NULL && large_free(argument, block, true));
    }
    return NULL;
}

/* None is lost where several threads count at once. */
static void counted_by_several(void) {
    static large_counts_t together;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, take_and_free, &together), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(together.allocs, 4 * TURNS);
    CHECK_EQ(together.frees, 4 * TURNS);
    CHECK_EQ(together.taken_bytes, 4 * TURNS * HK_SLOT_SIZE);
    CHECK_EQ(together.live_bytes, 0);
}

static void counted_by_one(void) {
    large_counts_t alone = {.of_one_thread = true};
    (void)take_and_free(&alone);
    CHECK_EQ(alone.allocs, TURNS);
    CHECK_EQ(alone.frees, TURNS);
    CHECK_EQ(alone.taken_bytes, TURNS * HK_SLOT_SIZE);
    CHECK_EQ(alone.live_bytes, 0);
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
