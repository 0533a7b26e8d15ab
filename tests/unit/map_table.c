/* SPDX-License-Identifier: MIT
 *
 * The slot table: entries of covered slots, 0 for every other address there can be, and tags that match only their own
 * entries (MAP-1, MAP-2).
 */
#include "rooms.h"

enum { SLOTS = 4096 };

static const void *const outside[] = {
    NULL,
    (void *)1,
    (void *)0xffff,
    (void *)0x7fffffffffff,
    (void *)0x800000000000,     /* the first non-canonical address */
    (void *)0xdeadbeefdeadbeef, /* another */
    (void *)0xffff800000000000,
    (void *)UINTPTR_MAX,
};

static void nothing_outside(void) {
    int local;
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        CHECK_EQ(map_lookup(outside[i]), 0);
        CHECK(map_slot(outside[i]) >= map_count());
        CHECK(map_granule_slot(map_granule(outside[i])) >= map_count());
    }
    CHECK_EQ(map_lookup(&local), 0);
    CHECK_EQ(map_lookup((char *)hk_window.base - 1), 0);
    CHECK_EQ(map_lookup((void *)hk_window.areas[REGION_AREA_TABLE]), 0);
    CHECK_EQ(map_lookup(map_slot_address((slot_t)map_count())), 0);
}

/* As region_alloc does for the superslabs that it hands out. */
static void cover(size_t slot_count) {
    size_t count = slot_count / HK_SLOTS_PER_SUPERSLAB;
    CHECK_EQ(area_cover_superslabs(REGION_AREA_TABLE, 0, count), 0);
    CHECK_EQ(area_cover_superslabs(REGION_AREA_LIVE, 0, count), 0);
    map_cover(slot_count);
}

static void entries(void) {
    cover(SLOTS);
    CHECK(map_count() >= SLOTS);
    for (slot_t slot = 0; slot < SLOTS; slot++)
        CHECK_EQ(map_entry(slot), 0);
    map_set(100, 4, map_tag(7) | 42);
    map_set(104, 1, HK_MAP_RUN_HEAD);
    map_set(105, 2, HK_MAP_RUN_BODY);
    CHECK_EQ(map_entry(99), 0);
    CHECK_EQ(map_entry(107), 0);
    for (slot_t slot = 100; slot < 104; slot++) {
        CHECK_EQ(map_lookup(map_slot_address(slot)), 7 << 8 | 42);
        CHECK_EQ(map_lookup(map_slot_address(slot) + HK_SLOT_SIZE - 1), 7 << 8 | 42);
        CHECK_EQ(map_lookup(map_slot_address(slot)) ^ map_tag(7), 42);
        CHECK_EQ(map_slot(map_slot_address(slot)), slot);
    }
    CHECK_EQ(map_lookup(map_slot_address(104) + 5), HK_MAP_RUN_HEAD);
    CHECK_EQ(map_lookup(map_slot_address(106)), HK_MAP_RUN_BODY);
    map_set(100, 7, 0);
    CHECK_EQ(map_lookup(map_slot_address(104)), 0);
}

/* One bit each; the odd addresses between granules are nobody's. */
static void live_bits(void) {
    char *base = map_slot_address(200);
    for (size_t offset = 0; offset < 4096; offset += 16) {
        granule_t granule = map_granule(base + offset);
        CHECK(map_granule_address(granule) == base + offset);
        CHECK_EQ(map_granule_slot(granule), 200);
        CHECK(!map_is_live(granule) && !map_clear_live(granule) && !map_clear_live_shared(granule));
        if (offset % 48 == 0)
            map_set_live(granule);
        else if (offset % 80 == 0)
            map_set_live_shared(granule);
        for (size_t odd = 1; odd < 16; odd++)
            CHECK(map_granule_slot(map_granule(base + offset + odd)) >= map_count());
    }
    for (size_t offset = 0; offset < 4096; offset += 16) {
        granule_t granule = map_granule(base + offset);
        bool live = offset % 48 == 0 || offset % 80 == 0;
        CHECK_EQ(map_is_live(granule), live);
        CHECK_EQ(offset % 32 == 0 ? map_clear_live(granule) : map_clear_live_shared(granule), live);
        CHECK(!map_is_live(granule));
    }
    /* A slot's bits go as a whole, to its last; its neighbours' stay. */
    for (size_t offset = 0; offset < HK_SLOT_SIZE; offset += 16)
        map_set_live(map_granule(base + offset));
    map_set_live(map_granule(base - 16));
    map_set_live(map_granule(base + HK_SLOT_SIZE));
    map_reset_live(200, 1);
    for (size_t offset = 0; offset < HK_SLOT_SIZE; offset += 16)
        CHECK(!map_is_live(map_granule(base + offset)));
    CHECK(map_clear_live_apart(map_granule(base - 16)) && !map_is_live(map_granule(base - 16)));
    CHECK(map_clear_live_apart(map_granule(base + HK_SLOT_SIZE)) && !map_clear_live_apart(map_granule(base - 16)));
    CHECK(!map_is_live(map_granule(base + HK_SLOT_SIZE)));
    char *last = map_slot_address((slot_t)map_count()) - 16;
    CHECK(!map_is_live(map_granule(last)) && !map_is_live(map_granule(map_slot_address(0))));
}

static void growth(void) {
    size_t count = map_count();
    map_set((slot_t)count - 1, 1, 77);
    map_cover(10);
    CHECK_EQ(map_count(), count);
    cover(count + 100000);
    CHECK_EQ(map_count(), count + 100000);
    CHECK_EQ(map_entry(count - 1), 77);
    CHECK_EQ(map_entry(count), 0);
}

static void tags(void) {
    for (uint32_t owner = HK_OWNER_SHARED; owner < HK_OWNER_LIMIT; owner++) {
        CHECK((HK_MAP_RUN_HEAD ^ map_tag(owner)) > HK_MAP_CLASS_MAX);
        CHECK((HK_MAP_RUN_BODY ^ map_tag(owner)) > HK_MAP_CLASS_MAX);
        CHECK((0 ^ map_tag(owner)) > HK_MAP_CLASS_MAX);
        CHECK(!map_is_run(map_tag(owner) | (HK_MAP_CLASS_LARGE - 1)) &&
              map_is_run(map_tag(owner) | HK_MAP_CLASS_LARGE));
        CHECK(((map_tag(owner) | 5) ^ HK_MAP_NO_TAG) > HK_MAP_CLASS_MAX);
        CHECK(((map_tag(owner) | 5) ^ map_tag(owner + 1)) > HK_MAP_CLASS_MAX);
    }
    CHECK(map_is_run(HK_MAP_RUN_HEAD) && map_is_run(HK_MAP_RUN_BODY) && !map_is_run(0));
    CHECK((HK_MAP_RUN_HEAD ^ HK_MAP_NO_TAG) > HK_MAP_CLASS_MAX);
    CHECK((0 ^ HK_MAP_NO_TAG) > HK_MAP_CLASS_MAX);
}

int main(void) {
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        CHECK_EQ(map_lookup(outside[i]), 0); /* before the start */
    start_map();
    nothing_outside();
    entries();
    live_bits();
    growth();
    live_bits();
    nothing_outside();
    tags();
    return CHECK_PASS;
}
