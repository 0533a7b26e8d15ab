/* SPDX-License-Identifier: MIT
 *
 * Runs of more than a superslab: contiguous, aligned, zeroed; the tail of the last superslab serves others, and the
 * whole ones go straight back to the region, purged.
 */
#include "rooms.h"
#include "superslab_totals.h"
#include "sys/sys.h"

static slot_t long_run(size_t count, size_t align) {
    superslab_totals_t before = superslab_totals();
    slots_t got = slots_alloc(count, align, SLOTS_SPARSE);
    CHECK(got.first != 0 && got.zeroed);
    CHECK_EQ(got.first % hk_max(align, SLOTS), 0);
    superslab_totals_t after = superslab_totals();
    CHECK_EQ(after.superslab_count - before.superslab_count, (count + SLOTS - 1) / SLOTS);
    CHECK_EQ(after.free_slots - before.free_slots, (SLOTS - count % SLOTS) % SLOTS);
    CHECK_EQ(superslab_check(), 0);
    return got.first;
}

static void tail(void) {
    slot_t run = long_run(70, 1);
    CHECK(all_zeros(map_slot_address(run), 70 * HK_SLOT_SIZE));
    memset(map_slot_address(run), 1, 70 * HK_SLOT_SIZE);
    slots_t other = slots_alloc(16, 16, SLOTS_SPARSE);
    CHECK_EQ(other.first, run + 2 * SLOTS + 16);
    slots_free(run, 70, true);
    /* Two whole superslabs are gone with their pages; the third keeps six dirty slots beside the other run. */
    CHECK_EQ(superslab_totals().superslab_count, 1);
    CHECK_EQ(superslab_dirty_bytes(), 6 * HK_SLOT_SIZE);
    CHECK_EQ(superslab_check(), 0);
    CHECK_EQ(superslab_purge(SIZE_MAX), 6 * HK_SLOT_SIZE);
    slot_t again = long_run(2 * SLOTS, 1);
    CHECK_EQ(again, run);
    CHECK(all_zeros(map_slot_address(again), 2 * HK_SUPERSLAB_SIZE));
    slots_free(again, 2 * SLOTS, false);
    slots_free(other.first, 16, false);
}

static void aligned(void) {
    for (size_t align = 1; align <= 512; align *= 4) {
        slot_t run = long_run(33, align);
        map_slot_address(run)[0] = map_slot_address(run + 33)[-1] = 1;
        slots_free(run, 33, true);
        (void)superslab_purge(SIZE_MAX); /* or the next would begin where this one ended */
    }
    /* A short run with a long alignment. */
    slots_t got = slots_alloc(5, 128, SLOTS_SPARSE);
    CHECK(got.first != 0 && got.first % 128 == 0);
    slots_free(got.first, 5, false);
    CHECK_EQ(superslab_check(), 0);
}

/* A run that is given back in parts, none of which ends where a superslab does. */
static void in_parts(void) {
    size_t held = superslab_totals().superslab_count * SLOTS - superslab_totals().free_slots;
    slot_t run = long_run(4 * SLOTS, 1);
    memset(map_slot_address(run), 1, 4 * HK_SUPERSLAB_SIZE);
    slots_free(run + 100, 28, true);
    slots_free(run + 10, 90, true);
    CHECK_EQ(superslab_check(), 0);
    slots_free(run, 10, true);
    CHECK_EQ(superslab_totals().superslab_count * SLOTS - superslab_totals().free_slots, held);
    CHECK_EQ(superslab_check(), 0);
    (void)superslab_purge(SIZE_MAX);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    CHECK(all_zeros(map_slot_address(long_run(4 * SLOTS, 1)), 4 * HK_SUPERSLAB_SIZE));
}

static void too_long(void) {
    CHECK_EQ(slots_alloc(hk_window.superslab_max * SLOTS, 1, SLOTS_SPARSE).first, 0);
    CHECK_EQ(superslab_check(), 0);
}

/* It begins behind another's slots, in whose superslab nothing else goes back. */
static void behind_another(void) {
    slots_t before = slots_alloc(SLOTS / 2, SLOTS / 2, SLOTS_SPARSE);
    CHECK(before.first != 0 && before.first % SLOTS == 0);
    memset(map_slot_address(before.first), 1, SLOTS / 2 * HK_SLOT_SIZE);
    bool zeroed;
    CHECK(slots_alloc_at(before.first + SLOTS / 2, 2 * SLOTS, &zeroed));
    memset(map_slot_address(before.first + SLOTS / 2), 2, 2 * HK_SUPERSLAB_SIZE);
    slots_free(before.first + SLOTS / 2, 2 * SLOTS, true);
    for (unsigned i = 0; i < SLOTS / 2; i++)
        CHECK_EQ(*map_slot_address(before.first + i), 1);
    CHECK_EQ(superslab_check(), 0);
    slots_free(before.first, SLOTS / 2, true);
    (void)superslab_purge(SIZE_MAX);
}

int main(void) {
    start_map();
    in_child(behind_another);
    tail();
    aligned();
    in_parts();
    too_long();
    return CHECK_PASS;
}
