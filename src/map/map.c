/* SPDX-License-Identifier: MIT */
#include "map/map.h"

#include "region/region.h"

hk_map_t hk_map;

void map_init(void) {
    hk_map.first = hk_window.base >> HK_SLOT_SHIFT;
    hk_map.table = (_Atomic uint32_t *)hk_window.areas[REGION_AREA_TABLE];
    hk_map.live = (uint64_t *)(hk_window.areas[REGION_AREA_LIVE] - hk_window.base / HK_LIVE_SHARE);
}

int map_cover(size_t slot_count) {
    if (slot_count <= map_count())
        return 0;
    int error = region_area_cover(REGION_AREA_TABLE, slot_count * sizeof(uint32_t));
    if (error == 0)
        error = region_area_cover(REGION_AREA_LIVE, slot_count * (HK_SLOT_SIZE / HK_LIVE_SHARE));
    if (error != 0)
        return error;
    /* Release: the memory behind the entries is mapped by now. */
    __atomic_store_n(&hk_map.count, slot_count, __ATOMIC_RELEASE);
    return 0;
}

void map_touch_live(slot_t slot, unsigned count) {
    enum { PAGE_BYTES = 4096 };
    granule_t first = map_granule(map_slot_address(slot));
    granule_t granules = (granule_t)count << (HK_SLOT_SHIFT - HK_GRANULE_SHIFT);
    for (granule_t i = 0; i < granules; i += PAGE_BYTES * 8)
        (void)__atomic_fetch_or(&hk_map.live[(first + i) / 64], 0, __ATOMIC_RELAXED);
}
