/* SPDX-License-Identifier: MIT
 *
 * Somebody else maps into the window: the mapping is stepped over, however large, whatever way the superslabs there
 * would have been taken, and its contents stay. What he gives back serves when nothing else is left.
 */
#include "core/counters.h"
#include "region/index.h"
#include "base/bits.h"
#include "rooms.h"
#include "sys/sys.h"

enum { MAPPINGS = 6, SIZE = 8192 };

static size_t foreign[MAPPINGS];
static size_t foreign_count;

static void map_foreign(size_t index) {
    char *at = region_superslab_address(index) + HK_SUPERSLAB_SIZE / 2;
    CHECK_EQ(sys_map_at(at, SIZE), 0);
    memset(at, 0x5a, SIZE);
    foreign[foreign_count++] = index;
}

static void all_whole(void) {
    for (size_t i = 0; i < foreign_count; i++) {
        const char *at = region_superslab_address(foreign[i]) + HK_SUPERSLAB_SIZE / 2;
        for (size_t k = 0; k < SIZE; k++)
            CHECK_EQ(at[k], 0x5a);
    }
}

static size_t take(size_t count, size_t align) {
    size_t first = region_alloc(count, align);
    CHECK(first != 0);
    for (size_t i = 0; i < foreign_count; i++)
        CHECK(foreign[i] < first || foreign[i] >= first + count);
    memset(region_superslab_address(first), 1, 4096);
    return first;
}

static char *reserve(size_t first, size_t count) {
    char *at = region_superslab_address(first);
    CHECK_EQ(sys_map_none_at(at, count << HK_SUPERSLAB_SHIFT), 0);
    return at;
}

static void give_back(char *at, size_t count) { sys_unmap(at, count << HK_SUPERSLAB_SHIFT); }

/* Some 1 - 4 TiB, as language runtimes reserve them: a few system calls, and no memory for what lies between. */
static void large_reservation(void) {
    const size_t count = hk_window.superslab_max / 16;
    (void)take(3, 1);
    size_t from = region_frontier() + 2, calls = atomic_load(&hk_counters.map_calls), bytes = region_area_bytes();
    char *at = reserve(from, count);
    for (unsigned i = 0; i < 40; i++) {
        size_t first = take(1, 1);
        CHECK(first < from || first >= from + count);
    }
    CHECK(region_frontier() >= from + count);
    CHECK(atomic_load(&hk_counters.map_calls) - calls < 120);
    CHECK(region_area_bytes() - bytes < 8 * HK_MIB);
    CHECK(region_check());
    /* A walk meets what is in use on both sides, and nothing between. */
    CHECK_EQ(region_next_used(from - 3), from - 3);
    CHECK(region_next_used(from) >= from + count);
    CHECK_EQ(region_next_used(region_frontier()), 0);
    /* The records of what was stepped over can be read, those of both sides written. */
    uint32_t *table = (uint32_t *)hk_window.areas[REGION_AREA_TABLE];
    for (size_t i = from; i < from + count; i += count / 100)
        CHECK_EQ(table[i * HK_SLOTS_PER_SUPERSLAB], 0);
    give_back(at, count);
}

/* All of the window that is left, and then nothing any more. */
static void everything(void) {
    (void)take(1, 1);
    size_t from = region_frontier(), count = hk_window.superslab_max - from;
    char *at = reserve(from, count);
    for (int i = 0; i < 64 && region_alloc(1, 1) != 0; i++)
        continue; /* those before the first, too */
    for (int i = 0; i < 10; i++)
        CHECK_EQ(region_alloc(1, 1), 0);
    CHECK_EQ(region_frontier(), from);
    give_back(at, count);
    CHECK_EQ(take(1, 1), from);
}

/* What was stepped over is given back when the rest of the window is taken. */
static void given_back(void) {
    const size_t count = hk_window.superslab_max / 16;
    size_t from = region_frontier();
    char *at = reserve(from, count);
    while (region_frontier() == from)
        (void)take(1, 1);
    size_t end = region_frontier(), rest = hk_window.superslab_max - end;
    char *behind = reserve(end, rest), *between = region_superslab_address(from + count);
    while (region_alloc(1, 1) != 0) /* what is left between */
        CHECK(between <= region_superslab_address(region_frontier()));
    give_back(at, count);
    size_t first = take(1, 1);
    CHECK(first >= from && first < from + count);
    (void)take(16, 16);
    CHECK(region_check());
    give_back(behind, rest);
}

/* Small requests find the room in front of what was in the way of a long one. */
static void room_before(void) {
    size_t from = region_frontier();
    map_foreign(from + 500);
    size_t first = take(1000, 1);
    CHECK(first > from + 500);
    first = take(100, 1);
    CHECK(first >= from && first + 100 <= from + 500);
    all_whole();
}

/* Where the live bits of superslabs would be. */
static void records_foreign(void) {
    size_t from = region_frontier(), share = window_area_share(REGION_AREA_LIVE);
    char *at = (char *)hk_window.areas[REGION_AREA_LIVE] + hk_align_up((from + 600) * share, 64 * HK_KIB);
    CHECK_EQ(sys_map_at(at, 64 * HK_KIB), 0);
    memset(at, 3, 64 * HK_KIB);
    for (unsigned i = 0; i < 1000; i++)
        (void)take(1, 1);
    CHECK(region_frontier() < from + 1200);
    CHECK(region_check());
    for (size_t i = 0; i < 64 * HK_KIB; i++)
        CHECK_EQ(at[i], 3);
}

/* A run that is longer than what is left of the window: the frontier never passes the end. */
static void end_of_window(void) {
    size_t end = hk_window.superslab_max = region_frontier() + 100;
    for (size_t count = 300; count > 100; count -= 50) {
        CHECK_EQ(region_alloc(count, 1), 0);
        CHECK(region_frontier() <= end);
    }
    (void)take(1, 1);
    CHECK(region_check());
}

static void small_mappings(void) {
    size_t first = take(1, 1);
    /* At the frontier, one by one and in front of a long run. */
    map_foreign(region_frontier());
    map_foreign(region_frontier() + 2);
    map_foreign(region_frontier() + 3);
    for (unsigned i = 0; i < 20; i++)
        (void)take(1, 1);
    map_foreign(region_frontier() + 5);
    (void)take(16, 1);
    all_whole();
    /* Where growth in place would go. */
    size_t end = region_frontier();
    map_foreign(end);
    CHECK(!region_alloc_at(end, 1));
    CHECK(!region_alloc_at(end, 2));
    all_whole();
    /* In the unclaimed gap that an alignment left. */
    end = region_frontier();
    size_t far = take(1, 64);
    if (far < end + 4)
        far = take(1, 256);
    map_foreign(far - 2);
    CHECK(!region_alloc_at(far - 2, 2));
    CHECK(region_alloc_at(far - 1, 1));
    for (unsigned i = 0; i < 300; i++)
        (void)take(1, 1);
    all_whole();
    sys_purge(region_superslab_address(first), HK_SUPERSLAB_SIZE);
    region_release(first, 1);
    CHECK_EQ(take(1, 1), first);
}

int main(void) {
    start_region();
    in_child(small_mappings);
    in_child(large_reservation);
    in_child(everything);
    in_child(given_back);
    in_child(room_before);
    in_child(records_foreign);
    in_child(end_of_window);
    return CHECK_PASS;
}
