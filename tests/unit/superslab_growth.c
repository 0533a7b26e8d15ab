/* SPDX-License-Identifier: MIT
 *
 * Growth in place: inside a superslab, into free and into new ones; all of it or nothing, and what was taken on the way
 * is given back.
 */
#include "rooms.h"
#include "superslab_totals.h"

static size_t slots_held(void) {
    superslab_totals_t totals = superslab_totals();
    return totals.superslab_count * SLOTS - totals.free_slots;
}

static slot_t take(size_t count) {
    slots_t got = slots_alloc(count, 1, SLOTS_SPARSE);
    CHECK(got.first != 0);
    return got.first;
}

static bool take_at(slot_t first, size_t count, bool *zeroed) {
    bool done = slots_alloc_at(first, count, zeroed);
    CHECK_EQ(superslab_check(), 0);
    return done;
}

static void within(void) {
    bool zeroed = false;
    slot_t run = take(20);
    CHECK_EQ(run % SLOTS, 0);
    CHECK(take_at(run + 20, 5, &zeroed) && zeroed);
    CHECK(!take_at(run + 24, 2, &zeroed));
    CHECK(!take_at(run, 1, &zeroed));
    memset(map_slot_address(run + 22), 1, HK_SLOT_SIZE);
    slots_free(run + 22, 3, true);
    CHECK(take_at(run + 22, 10, &zeroed) && !zeroed);
    CHECK_EQ(slots_held(), SLOTS);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    slots_free(run, SLOTS, false);
}

static void into_new_ones(void) {
    bool zeroed = false;
    slot_t run = take(SLOTS);
    size_t held = slots_held();
    CHECK(take_at(run + SLOTS, 3 * SLOTS + 5, &zeroed) && zeroed);
    CHECK_EQ(slots_held(), held + 3 * SLOTS + 5);
    CHECK(all_zeros(map_slot_address(run + SLOTS), (3 * SLOTS + 5) * HK_SLOT_SIZE));
    memset(map_slot_address(run), 1, (4 * SLOTS + 5) * HK_SLOT_SIZE);
    /* The rest of the last one is free for others. */
    slot_t other = take(16);
    CHECK_EQ(other / SLOTS, run / SLOTS + 4);
    CHECK(!take_at(run + 4 * SLOTS + 5, SLOTS - 5, &zeroed));
    slots_free(other, 16, false);
    CHECK(take_at(run + 4 * SLOTS + 5, SLOTS - 5, &zeroed) && zeroed);
    slots_free(run, 5 * SLOTS, true);
    CHECK_EQ(slots_held(), held - SLOTS);
    /* New superslabs are entered at their first slot only. */
    slot_t again = take(SLOTS);
    CHECK(!take_at(again + 40 * SLOTS + 1, 1, &zeroed));
}

/* An occupied slot in the third superslab: the two before go back, one to the region and one to the pool. */
static void roll_back(void) {
    bool zeroed = false;
    slot_t run = take(4 * SLOTS);
    slots_free(run + SLOTS, 4, false); /* of the second superslab, a part */
    slots_free(run + 2 * SLOTS, SLOTS, false);
    superslab_totals_t before = superslab_totals();
    CHECK(!take_at(run + SLOTS, 3 * SLOTS, &zeroed));
    CHECK(!take_at(run + 2 * SLOTS, SLOTS + 1, &zeroed));
    CHECK_EQ(slots_held(), before.superslab_count * SLOTS - before.free_slots);
    CHECK(take_at(run + 2 * SLOTS, SLOTS, &zeroed) && zeroed);
    /* Slots that were dirty are still taken for dirty afterwards. */
    slots_free(run + SLOTS + 4, SLOTS - 4, false);
    slots_free(run + 2 * SLOTS, 8, true);
    CHECK_EQ(superslab_dirty_bytes(), 8 * HK_SLOT_SIZE);
    CHECK(!take_at(run + 2 * SLOTS, 9, &zeroed));
    CHECK_EQ(superslab_dirty_bytes(), 8 * HK_SLOT_SIZE);
    CHECK(take_at(run + 2 * SLOTS, 8, &zeroed) && !zeroed);
    slots_free(run + 2 * SLOTS, 8, true);
    memset(map_slot_address(run + SLOTS), 0, HK_SLOT_SIZE);
    CHECK(!take_at(run + 2 * SLOTS, SLOTS + 1, &zeroed));
    CHECK(superslab_dirty_bytes() >= 8 * HK_SLOT_SIZE);
}

int main(void) {
    start_map();
    in_child(within);
    in_child(into_new_ones);
    in_child(roll_back);
    return CHECK_PASS;
}
