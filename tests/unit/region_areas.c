/* SPDX-License-Identifier: MIT
 *
 * Areas: behind the superslabs, apart from each other, usable and zeroed as far as they were covered, refused beyond their
 * end; their number of system calls grows with the logarithm of their size.
 */
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
    CHECK(atomic_load(&hk_counters.map_calls) - calls < 40);
    CHECK_EQ(region_area_cover(area, hk_window.area_sizes[area] + 1), ENOMEM);
    CHECK_EQ(region_area_cover(area, SIZE_MAX), ENOMEM);
    CHECK_EQ(region_area_cover(area, 1), 0);
}

int main(void) {
    start_region();
    apart();
    covered(REGION_AREA_META);
    covered(REGION_AREA_SLABS);
    return CHECK_PASS;
}
