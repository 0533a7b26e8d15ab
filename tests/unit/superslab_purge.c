/* SPDX-License-Identifier: MIT
 *
 * Purge: as much as was asked for, oldest first, down to the floor; purged slots read as zeros, clean empty superslabs
 * beyond a few go back to the region.
 */
#include "rooms.h"
#include "superslab_totals.h"
#include "sys/sys.h"

#include <sys/mman.h>

static size_t resident_pages(slot_t first, size_t count) {
    static unsigned char flags[16 * HK_MIB / 4096];
    size_t size = count * HK_SLOT_SIZE, sum = 0;
    CHECK(mincore(map_slot_address(first), size, flags) == 0);
    for (size_t i = 0; i < size / sys_page_size(); i++)
        sum += flags[i] & 1;
    return sum;
}

static slot_t written(size_t count) {
    slots_t got = slots_alloc(count, 1, SLOTS_SPARSE);
    CHECK(got.first != 0);
    memset(map_slot_address(got.first), 1, count * HK_SLOT_SIZE);
    return got.first;
}

static void by_count(void) {
    slot_t run = written(10);
    slots_free(run, 8, true);
    CHECK_EQ(superslab_dirty_bytes(), 8 * HK_SLOT_SIZE);
    CHECK_EQ(superslab_purge(0), 0);
    CHECK_EQ(superslab_dirty_bytes(), 8 * HK_SLOT_SIZE);
    CHECK(resident_pages(run, 8) > 0);
    CHECK_EQ(superslab_purge(8), 8 * HK_SLOT_SIZE);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    CHECK_EQ(resident_pages(run, 8), 0);
    CHECK_EQ(pool_record(run / SLOTS)->purging_mask, 0);
    CHECK_EQ(superslab_check(), 0);
    CHECK_EQ(superslab_purge(SIZE_MAX), 0);
    slots_t again = slots_alloc(8, 1, SLOTS_SPARSE);
    CHECK(again.first == run && again.zeroed);
    CHECK(all_zeros(map_slot_address(run), 8 * HK_SLOT_SIZE));
    CHECK_EQ(*map_slot_address(run + 8), 1);
}

/* The least that was dirty since the last question. */
static void low_level(void) {
    slot_t run = written(10);
    (void)superslab_dirty_low();
    CHECK_EQ(superslab_dirty_low(), 0);
    slots_free(run, 6, true);
    CHECK_EQ(superslab_dirty_low(), 0);
    CHECK_EQ(superslab_dirty_low(), 6);
    bool zeroed;
    CHECK(slots_alloc_at(run, 4, &zeroed));
    slots_free(run, 4, true);
    CHECK_EQ(superslab_dirty_low(), 2);
    CHECK_EQ(superslab_dirty_low(), 6);
}

/* Slots taken again meanwhile are nobody's to purge. */
static void taken_again(void) {
    slot_t run = written(8);
    slots_free(run, 8, true);
    slots_t again = slots_alloc(4, 1, SLOTS_SPARSE);
    CHECK(again.first == run && !again.zeroed);
    CHECK_EQ(superslab_dirty_bytes(), 4 * HK_SLOT_SIZE);
    CHECK_EQ(superslab_purge(SIZE_MAX), 4 * HK_SLOT_SIZE);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(*map_slot_address(run + i), 1);
    CHECK_EQ(superslab_check(), 0);
}

/* More ranges than one round takes, every second slot of them. */
static void many_ranges(void) {
    enum { SUPERSLABS = 6 };
    slot_t runs[SUPERSLABS];
    for (unsigned i = 0; i < SUPERSLABS; i++)
        runs[i] = written(SLOTS);
    for (unsigned i = 0; i < SUPERSLABS; i++)
        for (unsigned k = 0; k < SLOTS; k += 2)
            slots_free(runs[i] + k, 1, true);
    size_t dirty = SUPERSLABS * SLOTS / 2 * HK_SLOT_SIZE;
    CHECK_EQ(superslab_dirty_bytes(), dirty);
    CHECK_EQ(superslab_purge(SIZE_MAX), dirty);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    for (unsigned i = 0; i < SUPERSLABS; i++)
        for (unsigned k = 0; k < SLOTS; k++)
            CHECK_EQ(*map_slot_address(runs[i] + k), k % 2);
    CHECK_EQ(superslab_check(), 0);
}

/* A round that is full in the middle of a superslab leaves the rest of it for the next. */
static void full_in_the_middle(void) {
    enum { SUPERSLABS = 6, FIRST_RANGES = SLOTS / 2 - 3 };
    slot_t runs[SUPERSLABS];
    size_t freed = 0;
    for (unsigned i = 0; i < SUPERSLABS; i++)
        runs[i] = written(SLOTS);
    for (unsigned i = 0; i < SUPERSLABS; i++)
        for (unsigned k = 0; k < (i == 0 ? 2 * FIRST_RANGES : SLOTS); k += 2, freed++)
            slots_free(runs[i] + k, 1, true);
    CHECK_EQ(superslab_purge(SIZE_MAX), freed * HK_SLOT_SIZE);
    for (unsigned i = 0; i < SUPERSLABS; i++)
        for (unsigned k = 1; k < SLOTS; k += 2)
            CHECK_EQ(*map_slot_address(runs[i] + k), 1);
    CHECK_EQ(pool_count(&hk_pool.purging), 0);
    CHECK_EQ(superslab_check(), 0);
}

/* The oldest go first, whole superslabs, and no more when the floor is reached. */
static void oldest_first(void) {
    slot_t old = written(SLOTS), middle = written(SLOTS), young = written(SLOTS);
    slots_free(old, SLOTS, true);
    slots_free(middle, SLOTS, true);
    slots_free(young, SLOTS, true);
    CHECK_EQ(superslab_purge(SLOTS - 1), 0);
    CHECK_EQ(superslab_purge(2 * SLOTS - 1), HK_SUPERSLAB_SIZE);
    CHECK_EQ(resident_pages(old, SLOTS), 0);
    CHECK(resident_pages(middle, SLOTS) > 0);
    superslab_set_floor(HK_SUPERSLAB_SIZE);
    CHECK_EQ(superslab_purge(SIZE_MAX), HK_SUPERSLAB_SIZE);
    CHECK_EQ(resident_pages(middle, SLOTS), 0);
    CHECK(resident_pages(young, SLOTS) > 0);
    CHECK_EQ(superslab_purge(SIZE_MAX), 0);
    superslab_set_floor(0);
    CHECK_EQ(superslab_purge(SIZE_MAX), HK_SUPERSLAB_SIZE);
}

/* What was given back is used last: as long as there is a superslab with warm slots, nothing is faulted in again. */
static void warm_first(void) {
    enum { COUNT = 4 };
    slot_t runs[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        runs[i] = written(SLOTS);
    for (unsigned i = 0; i < COUNT; i++)
        slots_free(runs[i], SLOTS, true);
    CHECK_EQ(superslab_purge(SLOTS), HK_SUPERSLAB_SIZE);
    for (unsigned i = 0; i < COUNT; i++) {
        slots_t got = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE);
        CHECK(got.first != 0 && got.zeroed == (i == COUNT - 1));
        CHECK((got.first == runs[0]) == (i == COUNT - 1));
    }
    CHECK_EQ(superslab_check(), 0);
}

/* A superslab that goes back to the region while it waits in the queue, and comes again: nobody falls out of the queue,
 * and the queue has an end. */
static void comes_again(slot_t first) {
    slots_t again = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE);
    CHECK_EQ(again.first, first);
    slots_free(first, SLOTS, false);
    again = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE);
    CHECK_EQ(again.first, first);
    slots_free(first, SLOTS, true);
}

static void queue_kept(void) {
    slot_t first = written(SLOTS), second = written(SLOTS);
    slots_free(first, SLOTS, true);
    slots_free(second, SLOTS / 2, true);
    comes_again(first);
    CHECK_EQ(superslab_purge(SIZE_MAX), HK_SUPERSLAB_SIZE * 3 / 2);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    slot_t third = written(SLOTS);
    slots_free(third, SLOTS, true);
    comes_again(third);
    slots_free(second + SLOTS / 2, SLOTS / 2, true);
    CHECK_EQ(superslab_purge(SIZE_MAX), HK_SUPERSLAB_SIZE * 3 / 2);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    CHECK_EQ(superslab_check(), 0);
}

/* By way of superslabs taken in place: the same. */
static void queue_kept_in_place(void) {
    bool zeroed;
    slot_t first = written(SLOTS), second = written(SLOTS);
    slots_free(first, SLOTS, true);
    slots_free(second, SLOTS / 2, true);
    CHECK(slots_alloc_at(first, SLOTS, &zeroed) && !zeroed);
    slots_free(first, SLOTS, false);
    CHECK(slots_alloc_at(first, 8, &zeroed) && zeroed);
    slots_free(first, 8, true);
    CHECK_EQ(superslab_purge(SIZE_MAX), (SLOTS / 2 + 8) * HK_SLOT_SIZE);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    CHECK_EQ(superslab_check(), 0);
}

static void empty_ones_go(void) {
    enum { SUPERSLABS = 40 };
    static slot_t runs[SUPERSLABS];
    for (unsigned i = 0; i < SUPERSLABS; i++)
        runs[i] = written(SLOTS);
    CHECK_EQ(superslab_totals().superslab_count, SUPERSLABS);
    for (unsigned i = 0; i < SUPERSLABS; i++)
        slots_free(runs[i], SLOTS, true);
    CHECK_EQ(superslab_totals().superslab_count, SUPERSLABS);
    CHECK_EQ(superslab_purge(SIZE_MAX), SUPERSLABS * HK_SUPERSLAB_SIZE);
    superslab_totals_t totals = superslab_totals();
    CHECK(totals.superslab_count <= 3);
    CHECK_EQ(totals.free_slots, totals.superslab_count * SLOTS);
    CHECK_EQ(totals.dirty_slots, 0);
    CHECK_EQ(superslab_check(), 0);
}

int main(void) {
    start_map();
    superslab_went_in_haste(SIZE_MAX); /* growth purges by its bound alone */
    in_child(by_count);
    in_child(low_level);
    in_child(taken_again);
    in_child(many_ranges);
    in_child(full_in_the_middle);
    in_child(oldest_first);
    in_child(warm_first);
    in_child(queue_kept);
    in_child(queue_kept_in_place);
    in_child(empty_ones_go);
    return CHECK_PASS;
}
