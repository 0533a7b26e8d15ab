/* SPDX-License-Identifier: MIT
 *
 * Where the kernel refuses whole superslabs, parts of them serve: what is absent of one is never touched, whoever has
 * it; the last slot takes the part along; free slots are unmapped for others and mapped again.
 */
#include "rooms.h"
#include "superslab_totals.h"
#include "sys/sys.h"

#include <sys/resource.h>

enum { MANY = 8 * SLOTS };

static slot_t taken[MANY];

static void set_limit(size_t more) {
    char text[128] = {0};
    long fd = sys_open_read("/proc/self/statm");
    CHECK(fd >= 0 && sys_read(fd, text, sizeof text - 1) > 0);
    sys_close(fd);
    struct rlimit limit = {(size_t)strtoull(text, NULL, 10) * sys_page_size() + more, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void lift_limit(void) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static slot_t take_one(void) {
    slot_t slot = slots_alloc(1, 1, SLOTS_SPARSE).first;
    if (slot == 0)
        return 0;
    CHECK(all_zeros(map_slot_address(slot), HK_SLOT_SIZE));
    memset(map_slot_address(slot), 1, HK_SLOT_SIZE);
    return slot;
}

static size_t take_all(void) {
    size_t count = 0;
    while (count < MANY && (taken[count] = take_one()) != 0)
        count++;
    CHECK_EQ(superslab_check(), 0);
    return count;
}

static void free_all(size_t count) {
    for (size_t i = 0; i < count; i++)
        slots_free(taken[i], 1, true);
    CHECK_EQ(superslab_check(), 0);
}

/* Somebody else maps a page behind the slots that are present. */
static char *map_behind(size_t index) {
    uint32_t present = superslab_view(index).present_mask;
    CHECK(present != 0 && present != UINT32_MAX);
    char *page = region_superslab_address(index) + (size_t)hk_popcount64(present) * HK_SLOT_SIZE;
    CHECK_EQ(sys_map_at(page, sys_page_size()), 0);
    *page = 77;
    return page;
}

/* Room for less than a superslab. */
static void less_than_one(void) {
    start_map();
    set_limit(HK_SUPERSLAB_SIZE - HK_SUPERSLAB_SIZE / 4);
    size_t count = take_all();
    CHECK(count >= SLOTS / 2 && count < SLOTS);
    CHECK_EQ(region_claimed_bytes(), count * HK_SLOT_SIZE);
    CHECK_EQ(superslab_taken_bytes(), count * HK_SLOT_SIZE);
    lift_limit();
    size_t index = taken[0] / SLOTS;
    char *foreign = map_behind(index);
    bool zeroed;
    slot_t behind = (slot_t)(index * SLOTS + hk_popcount64(superslab_view(index).present_mask));
    CHECK(!slots_alloc_at(behind, 1, &zeroed) && !slots_take_dirty(behind, 1));
    free_all(count);
    CHECK_EQ(superslab_totals().superslab_count, 0);
    CHECK_EQ(region_claimed_bytes(), 0);
    CHECK_EQ(*foreign, 77);
    CHECK_EQ(sys_is_mapped(region_superslab_address(index), HK_SLOT_SIZE), false);
    /* The superslab is somebody else's by now: another one is found. */
    slot_t other = slots_alloc(SLOTS, SLOTS, SLOTS_DENSE).first;
    CHECK(other != 0 && other / SLOTS != index);
    CHECK_EQ(*foreign, 77);
}

/* A part's dirty slots are purged as others are, and its last one takes it along. */
static void purged(void) {
    start_map();
    set_limit(HK_SUPERSLAB_SIZE - HK_SUPERSLAB_SIZE / 4);
    size_t count = take_all();
    CHECK(count >= 4);
    slots_free(taken[1], 1, true);
    CHECK_EQ(superslab_purge(SIZE_MAX), HK_SLOT_SIZE);
    CHECK_EQ(superslab_check(), 0);
    CHECK_EQ(take_one(), taken[1]);
    free_all(count);
    CHECK_EQ(superslab_totals().superslab_count, 0);
}

/* All is claimed, and half of it lies free in single slots. */
static void in_pieces(void) {
    start_map();
    set_limit(5 * HK_MIB);
    size_t count = take_all();
    CHECK(count >= 2 * SLOTS);
    for (size_t i = 0; i < count; i += 2)
        slots_free(taken[i], 1, true);
    CHECK(sys_map(HK_MIB) == NULL);
    CHECK(superslab_release_free(count / 2 * HK_SLOT_SIZE) >= (count / 2 - 2) * HK_SLOT_SIZE);
    CHECK_EQ(superslab_check(), 0);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    CHECK_EQ(region_claimed_bytes(), count / 2 * HK_SLOT_SIZE);
    char *others = sys_map(HK_MIB);
    CHECK(others != NULL);
    for (size_t i = 1; i < count; i += 2)
        CHECK_EQ(*map_slot_address(taken[i]), 1);
    /* Somebody else has one of the gaps: others are mapped again. */
    char *gap = map_slot_address(taken[2]);
    CHECK_EQ(sys_map_at(gap, sys_page_size()), 0);
    *gap = 77;
    sys_unmap(others, HK_MIB);
    size_t again = 0;
    for (slot_t slot; again < MANY && (slot = take_one()) != 0; again++)
        CHECK(slot != taken[2]);
    CHECK(again >= count / 4);
    CHECK_EQ(superslab_check(), 0);
    CHECK_EQ(*gap, 77);
}

/* What is asked for goes, the longest stretch first; nothing goes for what cannot be had in any case. */
static void as_much_as_serves(void) {
    start_map();
    set_limit(5 * HK_MIB);
    size_t count = take_all();
    CHECK(count >= 2 * SLOTS);
    for (size_t i = 0; i < count; i += 2)
        slots_free(taken[i], 1, true);
    slots_free(taken[5], 1, true);
    size_t free_slots = superslab_totals().free_slots, claimed = region_claimed_bytes();
    CHECK_EQ(superslab_release_free((free_slots + 2) * HK_SLOT_SIZE), 0);
    CHECK_EQ(region_claimed_bytes(), claimed);
    CHECK(sys_map(3 * HK_SLOT_SIZE) == NULL);
    CHECK_EQ(superslab_release_free(3 * HK_SLOT_SIZE), 3 * HK_SLOT_SIZE);
    CHECK_EQ(region_claimed_bytes(), claimed - 3 * HK_SLOT_SIZE);
    CHECK(!sys_is_mapped(map_slot_address(taken[4]), HK_SLOT_SIZE));
    CHECK(sys_is_mapped(map_slot_address(taken[0]), 3 * HK_SLOT_SIZE));
    CHECK(sys_map(3 * HK_SLOT_SIZE) != NULL);
    CHECK_EQ(superslab_check(), 0);
}

/* A mapping more for each hole: there are 4,096 of them, and the rest of the last superslab, however much is asked for.
 * No page is touched. */
static void holes_are_bounded(void) {
    enum { HOLES_MAX = 4096, MORE = 40, COUNT = 2 * HOLES_MAX + MORE * SLOTS };
    static slot_t slots[COUNT];
    start_map();
    scarce_note();
    for (size_t i = 0; i < COUNT; i++)
        CHECK((slots[i] = slots_alloc(1, 1, SLOTS_SPARSE).first) != 0);
    for (size_t i = 0; i < COUNT; i += 2)
        slots_free(slots[i], 1, false);
    for (unsigned tries = 0; tries < 3; tries++)
        (void)superslab_release_free(COUNT * HK_SLOT_SIZE / 4);
    size_t gone = COUNT - region_claimed_bytes() / HK_SLOT_SIZE;
    CHECK(gone >= HOLES_MAX && gone < HOLES_MAX + SLOTS);
    CHECK_EQ(superslab_check(), 0);
}

int main(void) {
    if (HK_TSAN || sys_address_space_limit() != SIZE_MAX)
        return check_skip("the window, or the limit of address space, is not the test's");
    in_child(less_than_one);
    in_child(purged);
    in_child(in_pieces);
    in_child(as_much_as_serves);
    in_child(holes_are_bounded);
    return CHECK_PASS;
}
