/* SPDX-License-Identifier: MIT
 *
 * Large blocks: found by any address in them, freed once, cached for the next of about their size, and given back by
 * count, by bytes and by an injected clock; growth takes from the cache first, and what was freed serves any size.
 */
#include "core/counters.h"
#include "large/large.h"
#include "rooms.h"
#include "superslab_totals.h"
#include "sys/sys.h"

static large_cache_t cache;

static char *take(size_t size) {
    bool zeroed = false;
    char *block = large_alloc(&cache, size, 1, &zeroed);
    CHECK(block != NULL);
    CHECK((uintptr_t)block % HK_SLOT_SIZE == 0);
    CHECK_EQ(large_size(block), hk_align_up(size, HK_SLOT_SIZE));
    CHECK(large_is_live(block));
    CHECK(!zeroed || all_zeros(block, HK_SLOT_SIZE));
    return block;
}

static char *take_any(size_t size) {
    char *block = large_alloc(&cache, size, 1, NULL);
    CHECK(block != NULL);
    return block;
}

static size_t hits(void) { return atomic_load(&hk_counters.large_cache_hits); }

static size_t slots_held(void) {
    superslab_totals_t totals = superslab_totals();
    return totals.superslab_count * HK_SLOTS_PER_SUPERSLAB - totals.free_slots;
}

/* Resident slots in the pool, so that growth needs nothing from the cache. */
static void fill_pool(void) {
    slots_t got = slots_alloc(HK_SLOTS_PER_SUPERSLAB, 1, SLOTS_SPARSE);
    CHECK(got.first != 0);
    slots_free(got.first, HK_SLOTS_PER_SUPERSLAB, true);
}

static void addresses(void) {
    char *block = take(HK_MID_MAX + 1);
    CHECK_EQ(map_lookup(block), HK_MAP_RUN_HEAD);
    CHECK_EQ(map_lookup(block + HK_SLOT_SIZE), HK_MAP_RUN_BODY);
    CHECK_EQ(map_lookup(block + 5 * HK_SLOT_SIZE - 1), HK_MAP_RUN_BODY);
    CHECK(map_lookup(block + 5 * HK_SLOT_SIZE) != HK_MAP_RUN_BODY);
    for (size_t at = 0; at < 5 * HK_SLOT_SIZE; at += 4096)
        CHECK(large_start(block + at) == block);
    CHECK_EQ(cache.live_bytes, (long long)(5 * HK_SLOT_SIZE));
    CHECK(large_free(&cache, block));
    CHECK_EQ(cache.live_bytes, 0);
}

static void freed_once(void) {
    char *block = take(HK_MIB);
    CHECK(large_free(&cache, block));
    CHECK(!large_is_live(block));
    CHECK(!large_free(&cache, block));
    CHECK_EQ(map_lookup(block), HK_MAP_RUN_HEAD); /* known until it leaves the cache */
    (void)large_cache_trim(&cache, sys_now_ms() + 1000, 0);
    CHECK_EQ(map_lookup(block), 0);
    CHECK(!large_is_live(block));
}

static void cached(void) {
    char *block = take(HK_MIB);
    memset(block, 1, HK_MIB);
    size_t before = hits();
    CHECK(large_free(&cache, block));
    CHECK_EQ(cache.bytes, HK_MIB);
    CHECK(take(HK_MIB - 1) == block);
    CHECK_EQ(hits(), before + 1);
    CHECK_EQ(cache.count, 0);
    /* A run serves what is smaller by an eighth, not what is much smaller or larger at all. */
    CHECK(large_free(&cache, block));
    bool zeroed = true;
    CHECK(large_alloc(&cache, HK_MIB - HK_SLOT_SIZE, 1, &zeroed) == block);
    CHECK(!zeroed);
    CHECK_EQ(large_size(block), HK_MIB);
    CHECK(large_free(&cache, block));
    fill_pool();
    char *small = take(HK_MIB / 2), *larger = take(HK_MIB + 1);
    CHECK(small != block && larger != block);
    CHECK_EQ(hits(), before + 2);
    CHECK(large_free(&cache, small) && large_free(&cache, larger));
    /* The best fit of several. */
    CHECK(take(HK_MIB) == block);
    CHECK(take(HK_MIB / 2) == small);
    CHECK(large_free(&cache, block) && large_free(&cache, small));
    CHECK_EQ(large_cache_trim(&cache, sys_now_ms() + 1000, 0), HK_MIB * 3 / 2 + HK_MIB + HK_SLOT_SIZE);
}

static void bounds(void) {
    char *blocks[LARGE_CACHE_ENTRIES + 4];
    for (unsigned i = 0; i < LARGE_CACHE_ENTRIES + 4; i++)
        blocks[i] = take(HK_MIB / 2);
    for (unsigned i = 0; i < LARGE_CACHE_ENTRIES + 4; i++) {
        CHECK(large_free(&cache, blocks[i]));
        CHECK(cache.count <= LARGE_CACHE_ENTRIES);
    }
    CHECK_EQ(map_lookup(blocks[3]), 0); /* the oldest left */
    CHECK_EQ(map_lookup(blocks[4]), HK_MAP_RUN_HEAD);
    for (unsigned i = 0; i < 5; i++)
        blocks[i] = take(3 * HK_MIB);
    for (unsigned i = 0; i < 5; i++) {
        CHECK(large_free(&cache, blocks[i]));
        CHECK(cache.bytes <= 8 * HK_MIB);
    }
    CHECK_EQ(cache.count, 2);
    char *block = take(9 * HK_MIB);
    CHECK(large_free(&cache, block));
    CHECK_EQ(map_lookup(block), 0);
    CHECK_EQ(cache.live_bytes, 0);
    (void)large_cache_trim(&cache, sys_now_ms() + 1000, 0);
    CHECK_EQ(cache.bytes, 0);
}

static void by_age(void) {
    char *a = take(HK_MIB), *b = take(2 * HK_MIB);
    uint64_t before = sys_now_ms();
    CHECK(large_free(&cache, a) && large_free(&cache, b));
    uint64_t after = sys_now_ms();
    CHECK_EQ(large_cache_trim(&cache, before + 499, 500), 0);
    CHECK_EQ(large_cache_trim(&cache, before - 8, 500), 0); /* by a clock read earlier */
    CHECK_EQ(large_cache_trim(&cache, after + 1000000, UINT64_MAX), 0);
    CHECK_EQ(cache.count, 2);
    CHECK_EQ(large_cache_trim(&cache, after + 500, 500), 3 * HK_MIB);
    CHECK_EQ(cache.count, 0);
}

/* Growth takes from the cache, the oldest run first and no more than it needs; what it took stays resident. */
static void yields(void) {
    (void)superslab_purge(SIZE_MAX);
    char *a = take(HK_MIB), *b = take(5 * HK_MIB), *c = take(HK_MIB);
    memset(b, 1, 5 * HK_MIB);
    CHECK(large_free(&cache, a) && large_free(&cache, b) && large_free(&cache, c));
    large_cache_yield(&cache, 1, 1);
    CHECK_EQ(cache.count, 2);
    CHECK_EQ(superslab_dirty_bytes(), HK_MIB);
    large_cache_yield(&cache, 16, 1);
    CHECK_EQ(cache.count, 2);
    large_cache_yield(&cache, 40, 1);
    CHECK_EQ(cache.count, 1);
    CHECK_EQ(superslab_dirty_bytes(), 6 * HK_MIB);
    CHECK_EQ(*(volatile char *)b, 1);
    CHECK(take(HK_MIB) == c);
    large_cache_yield(&cache, 1024, 1);
    CHECK_EQ(cache.count, 0);
    CHECK(large_free(&cache, c));
    (void)large_cache_trim(&cache, sys_now_ms() + 1000, 0);
    (void)superslab_purge(SIZE_MAX);
}

/* What a run that no cache holds leaves behind serves shorter ones, one beside the other, and is never given back for
 * it. */
static void shared_out(void) {
    (void)superslab_purge(SIZE_MAX);
    char *whole = take(20 * HK_MIB);
    memset(whole, 7, 20 * HK_MIB);
    CHECK(large_free(&cache, whole));
    CHECK_EQ(cache.count, 0);
    CHECK_EQ(superslab_dirty_bytes(), 20 * HK_MIB);
    char *part = take_any(5 * HK_MIB), *other = take_any(15 * HK_MIB);
    CHECK(part >= whole && part + 5 * HK_MIB <= whole + 20 * HK_MIB && *part == 7);
    CHECK(other >= whole && other + 15 * HK_MIB <= whole + 20 * HK_MIB && other[15 * HK_MIB - 1] == 7);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    CHECK_EQ(cache.live_bytes, (long long)(20 * HK_MIB));
    CHECK(large_free(&cache, part) && large_free(&cache, other));
    /* Freed apart, they are one again. */
    (void)large_cache_yield(&cache, 1024, 1);
    CHECK(take_any(20 * HK_MIB) == whole && *whole == 7);
    CHECK(large_free(&cache, whole));
    /* Zeros are not written over so much. */
    bool zeroed = false;
    whole = large_alloc(&cache, 20 * HK_MIB, 1, &zeroed);
    CHECK(zeroed && *whole == 0 && whole[20 * HK_MIB - 1] == 0);
    CHECK(large_free(&cache, whole));
    CHECK_EQ(cache.live_bytes, 0);
    (void)superslab_purge(SIZE_MAX);
}

/* Short runs reach the bound on their number before that on bytes. */
static void bound_of_entries(void) {
    char *blocks[LARGE_CACHE_ENTRIES + 3];
    for (unsigned i = 0; i < sizeof blocks / sizeof *blocks; i++)
        blocks[i] = take(HK_MID_MAX + 1);
    for (unsigned i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        CHECK(large_free(&cache, blocks[i]));
        CHECK_EQ(cache.count, hk_min(i + 1, LARGE_CACHE_ENTRIES));
    }
    CHECK(large_cache_trim(&cache, 0, 0) > 0);
    CHECK_EQ(cache.count, 0);
}

int main(void) {
    start_slab();
    large_cache_init(&cache);
    addresses();
    in_child(bound_of_entries);
    freed_once();
    cached();
    bounds();
    by_age();
    yields();
    shared_out();
    CHECK_EQ(slots_held(), 0);
    CHECK_EQ(superslab_check(), 0);
    return CHECK_PASS;
}
