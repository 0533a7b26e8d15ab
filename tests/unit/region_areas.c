/* SPDX-License-Identifier: MIT
 *
 * Areas: behind the superslabs, apart from each other, usable and zeroed as far as they were covered, refused beyond their
 * end; their number of system calls grows with the logarithm of their size. Once huge pages are earned, what comes behind the
 * first border of one is mapped by whole ones.
 */
#include "base/bits.h"
#include "core/counters.h"
#include "rooms.h"

#include <errno.h>

static void apart(void) {
    uintptr_t end = hk_window.base + (hk_window.superslab_max << HK_SUPERSLAB_SHIFT);
    for (int area = 0; area < REGION_AREA_COUNT; area++) {
        CHECK(hk_window.areas[area] >= end);
        CHECK_EQ(hk_window.areas[area] % 4096, 0);
        end = hk_window.areas[area] + hk_window.area_sizes[area];
    }
    CHECK(hk_window.area_sizes[REGION_AREA_TABLE] >= hk_window.superslab_max * HK_SLOTS_PER_SUPERSLAB * 4);
    CHECK(hk_window.area_sizes[REGION_AREA_SLABS] >= hk_window.superslab_max * HK_SLOTS_PER_SUPERSLAB * 128);
    CHECK(hk_window.area_sizes[REGION_AREA_LIVE] >= hk_window.superslab_max * (HK_SUPERSLAB_SIZE / 128));
    CHECK(hk_window.area_sizes[REGION_AREA_STATE] >= hk_window.superslab_max);
}

static void covered(region_area_t area) {
    char *at = (char *)hk_window.areas[area];
    size_t before = region_area_bytes(), calls = atomic_load(&hk_counters.map_calls);
    CHECK_EQ(region_area_cover(area, 0), 0);
    CHECK_EQ(region_area_bytes(), before);
    size_t size = 0;
    for (size_t wanted = 1; wanted < 8 * HK_MIB; wanted += 10000) {
        CHECK_EQ(region_area_cover(area, wanted), 0);
        for (; size < wanted; size += 4096) {
            CHECK_EQ(at[size], 0);
            at[size] = 1;
        }
        CHECK_EQ(at[wanted - 1], (wanted - 1) % 4096 == 0);
    }
    CHECK(region_area_bytes() - before >= 8 * HK_MIB - 20000);
    CHECK(region_area_bytes() - before <= 11 * HK_MIB);
    CHECK(atomic_load(&hk_counters.map_calls) - calls < 24);
    CHECK_EQ(region_area_cover(area, hk_window.area_sizes[area] + 1), ENOMEM);
    CHECK_EQ(region_area_cover(area, SIZE_MAX), ENOMEM);
    CHECK_EQ(region_area_cover(area, 1), 0);
}

/* What of an area comes before the first border of a huge page. */
static size_t before_border(region_area_t area) {
    return hk_align_up(hk_window.areas[area], HK_SUPERSLAB_SIZE) - hk_window.areas[area];
}

/* Wherever the first superslab is: live bits have small pages besides those before it. */
static void borders(void) {
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(before_border(REGION_AREA_META), 512 * HK_KIB);
        CHECK_EQ(before_border(REGION_AREA_SLABS), 512 * HK_KIB);
        size_t unused = (region_frontier() - 1) * (HK_SUPERSLAB_SIZE / 128), small = before_border(REGION_AREA_LIVE);
        CHECK(small >= HK_MIB + unused - 64 * HK_KIB && small <= HK_MIB + unused);
        CHECK_EQ(region_init(), 0);
    }
}

static size_t asked(void) { return atomic_load(&hk_counters.huge_page_bytes); }

static void first_covers(void) {
    covered(REGION_AREA_META);
    covered(REGION_AREA_SLABS);
    covered(REGION_AREA_LIVE);
    CHECK_EQ(asked(), 0);
}

static void earned(region_area_t area) {
    size_t before = asked(), small = before_border(area);
    region_earn_huge_records(true);
    CHECK_EQ(region_area_cover(area, small), 0);
    CHECK_EQ(asked() - before, 0);
    CHECK_EQ(region_area_size(area), small);
    CHECK_EQ(region_area_cover(area, small + 1), 0);
    CHECK_EQ(region_area_size(area), small + HK_SUPERSLAB_SIZE);
    CHECK_EQ(region_area_cover(area, small + 2 * HK_SUPERSLAB_SIZE), 0);
    region_earn_huge_records(false);
    CHECK_EQ(region_area_cover(area, small + 2 * HK_SUPERSLAB_SIZE + 1), 0);
    CHECK(region_area_size(area) < small + 3 * HK_SUPERSLAB_SIZE);
    memset((void *)hk_window.areas[area], 1, region_area_size(area));
    size_t got = asked() - before; /* none where the kernel has no huge pages */
    CHECK(got == 0 || got == 2 * HK_SUPERSLAB_SIZE);
}

static void huge_pages(void) {
    earned(REGION_AREA_META);
    earned(REGION_AREA_SLABS);
    earned(REGION_AREA_LIVE);
    size_t before = asked();
    region_earn_huge_records(true);
    CHECK_EQ(region_area_cover(REGION_AREA_TABLE, 8 * HK_MIB), 0);
    CHECK_EQ(asked(), before);
}

int main(void) {
    start_region();
    apart();
    in_child(borders);
    in_child(first_covers);
    in_child(huge_pages);
    return CHECK_PASS;
}
