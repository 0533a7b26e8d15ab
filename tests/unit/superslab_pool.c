/* SPDX-License-Identifier: MIT
 *
 * Where slots come from: aligned, the smallest run that serves, the fullest superslab first, warm pages first, dense
 * ones apart from sparse ones, empty superslabs for either.
 */
#include "rooms.h"
#include "superslab_totals.h"

static slot_t take_as(size_t count, size_t align, slots_use_t use) {
    slots_t got = slots_alloc(count, align, use);
    CHECK(got.first != 0);
    CHECK_EQ(got.first % align, 0);
    CHECK_EQ(superslab_check(), 0);
    return got.first;
}

static slot_t take(size_t count, size_t align) { return take_as(count, align, SLOTS_SPARSE); }

static void give(slot_t first, size_t count) {
    slots_free(first, count, false);
    CHECK_EQ(superslab_check(), 0);
}

static size_t superslab_of(slot_t slot) { return slot / SLOTS; }

static size_t superslab_count(void) { return superslab_totals().superslab_count; }

/* A whole superslab of which the slots of `free_mask` are given back. */
static slot_t superslab_with(uint32_t free_mask) {
    slot_t first = take(SLOTS, SLOTS);
    for (unsigned i = 0; i < SLOTS; i++)
        if (free_mask >> i & 1)
            give(first + i, 1);
    return first;
}

static bool has_order(uint32_t mask, unsigned order) {
    const uint32_t stretch = (uint32_t)hk_low_mask64(1u << order);
    for (unsigned at = 0; at < SLOTS; at += 1u << order)
        if ((mask >> at & stretch) == stretch)
            return true;
    return false;
}

static void orders(void) {
    uint64_t random = 1;
    for (unsigned turn = 0; turn < 20000; turn++) {
        uint32_t mask = (uint32_t)next_random(&random) | (uint32_t)next_random(&random);
        for (unsigned i = 0; i < turn % 5; i++)
            mask |= (uint32_t)next_random(&random);
        const unsigned order = pool_largest_order(mask);
        CHECK(has_order(mask, order) && (order == ORDER_COUNT - 1 || !has_order(mask, order + 1)));
    }
    CHECK(pool_largest_order(ALL_SLOTS) == ORDER_COUNT - 1 && pool_largest_order(0) == 0);
    CHECK(pool_largest_order(0x06) == 0 && pool_largest_order(0x0c) == 1 && pool_largest_order(0xffff0000) == 4);
}

static void addresses(void) {
    slot_t a = take(1, 1), b = take(1, 1), c = take(4, 4), d = take(1, 1);
    CHECK(a % SLOTS == 0 && superslab_of(a) != 0);
    CHECK_EQ(b, a + 1);
    CHECK_EQ(c, a + 4);
    CHECK_EQ(d, a + 2); /* not out of the longer run behind */
    CHECK_EQ(take(16, 16), a + 16);
    CHECK_EQ(take(3, 1), a + 8); /* three of an aligned four */
    CHECK_EQ(take(1, 1), a + 3);
    give(a, 11);
    give(a + 16, 16);
    CHECK_EQ(take(SLOTS, SLOTS), a);
    give(a, SLOTS);
}

static void fullest_first(void) {
    slot_t two = superslab_with(0x00000005), four = superslab_with(0x00000055), six = superslab_with(0x00000555);
    for (unsigned i = 0; i < 12; i++) {
        slot_t wanted = i < 2 ? two : i < 6 ? four : six;
        CHECK_EQ(superslab_of(take(1, 1)), superslab_of(wanted));
    }
    give(two, SLOTS);
    give(four, SLOTS);
    give(six, SLOTS);
}

/* A run of two has the choice between a long run and one of its own length in an emptier superslab. */
static void smallest_run(void) {
    slot_t longer = superslab_with(0x000000ff), shorter = superslab_with(0x03030303 | 0x30000000);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(superslab_of(take(2, 2)), superslab_of(shorter));
    CHECK_EQ(superslab_of(take(8, 8)), superslab_of(longer));
    give(longer, SLOTS);
    give(shorter + 30, 2);
    give(shorter, 28);
    CHECK_EQ(take(SLOTS, SLOTS) % SLOTS, 0);
}

static void dense_apart(void) {
    slot_t dense = take_as(1, 1, SLOTS_DENSE), sparse = take(1, 1);
    CHECK(superslab_of(dense) != superslab_of(sparse));
    for (unsigned i = 1; i < SLOTS; i++)
        CHECK_EQ(superslab_of(take_as(1, 1, SLOTS_DENSE)), superslab_of(dense));
    /* The dense one is full: a sparse one with room serves before a new superslab is opened. */
    size_t count = superslab_count();
    CHECK_EQ(superslab_of(take_as(1, 1, SLOTS_DENSE)), superslab_of(sparse));
    CHECK_EQ(superslab_count(), count);
    /* Sparse slots never come out of a dense superslab that holds any. */
    give(dense, 16);
    for (unsigned i = 0; i < SLOTS - 2; i++)
        CHECK_EQ(superslab_of(take(1, 1)), superslab_of(sparse));
    slot_t other = take(1, 1);
    CHECK(superslab_of(other) != superslab_of(dense) && superslab_of(other) != superslab_of(sparse));
    /* Empty it serves either use. */
    count = superslab_count();
    give(dense + 16, 16);
    slots_t whole = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE);
    CHECK_EQ(superslab_of(whole.first), superslab_of(dense));
    CHECK_EQ(superslab_count(), count);
}

static void warm_first(void) {
    slot_t first = take(SLOTS, SLOTS);
    memset(map_slot_address(first + 9), 1, HK_SLOT_SIZE);
    give(first, 9);
    slots_free(first + 9, 1, true);
    give(first + 10, 22 - 10);
    CHECK_EQ(superslab_dirty_bytes(), HK_SLOT_SIZE);
    slots_t got = slots_alloc(1, 1, SLOTS_SPARSE);
    while (superslab_of(got.first) != superslab_of(first))
        got = slots_alloc(1, 1, SLOTS_SPARSE);
    CHECK_EQ(got.first, first + 9);
    CHECK(!got.zeroed);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    got = slots_alloc(1, 1, SLOTS_SPARSE);
    CHECK(got.zeroed && all_zeros(map_slot_address(got.first), HK_SLOT_SIZE));
}

/* Any sequence of calls: no slot has two owners, contents stay, the pool's own check is content. */
static void at_random(void) {
    enum { RUNS = 80, TURNS = 4000 };
    static struct {
        slot_t first;
        size_t count;
    } runs[RUNS];
    uint64_t random = 7;
    size_t held = 0, before = superslab_totals().superslab_count * SLOTS - superslab_totals().free_slots;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned k = (unsigned)(next_random(&random) % RUNS);
        if (runs[k].count == 0) {
            size_t count =
                next_random(&random) % 8 == 0 ? 33 + next_random(&random) % 60 : 1 + next_random(&random) % 32;
            size_t align = (size_t)1 << next_random(&random) % 7;
            slots_t got = slots_alloc(count, align, next_random(&random) % 2 ? SLOTS_DENSE : SLOTS_SPARSE);
            CHECK(got.first != 0 && got.first % align == 0);
            runs[k].first = got.first;
            runs[k].count = count;
            held += count;
            for (size_t i = 0; i < count; i++) {
                uint64_t *word = (uint64_t *)map_slot_address(got.first + (slot_t)i);
                CHECK(!got.zeroed || *word == 0);
                *word = (uint64_t)k << 32 | i;
            }
        } else {
            for (size_t i = 0; i < runs[k].count; i++)
                CHECK_EQ(*(uint64_t *)map_slot_address(runs[k].first + (slot_t)i), (uint64_t)k << 32 | i);
            slots_free(runs[k].first, runs[k].count, true);
            held -= runs[k].count;
            runs[k].count = 0;
        }
        if (turn % 64 == 0)
            CHECK_EQ(superslab_check(), 0);
        if (turn % 500 == 0)
            CHECK(superslab_purge(SIZE_MAX) < HK_GIB);
        superslab_totals_t totals = superslab_totals();
        CHECK_EQ(totals.superslab_count * SLOTS - totals.free_slots, held + before);
    }
}

int main(void) {
    start_map();
    orders();
    addresses();
    fullest_first();
    smallest_run();
    in_child(dense_apart);
    in_child(warm_first);
    at_random();
    return CHECK_PASS;
}
