/* SPDX-License-Identifier: MIT */
#include "map/map.h"

#include "core/panic.h"
#include "region/region.h"

#include <string.h>

static const uint64_t granule_0 = UINT64_MAX; /* until map_init */

hk_map_t hk_map = {.live = (uint64_t *)(uintptr_t)&granule_0};

void map_init(void) {
    hk_assert(hk_window.base % HK_SUPERSLAB_SIZE == 0);
    hk_assert(hk_window.areas[REGION_AREA_TABLE] != 0);
    hk_map.first = hk_window.base >> HK_SLOT_SHIFT;
    hk_map.table = (_Atomic uint32_t *)hk_window.areas[REGION_AREA_TABLE];
    uint64_t *live = (uint64_t *)hk_window.live_origin;
    if (REGION_HAS_LIVE_ORIGIN)
        *live = granule_0;
    /* Release: whoever finds the new word finds it set. Threads that have no heap yet may be in malloc. */
    __atomic_store_n(&hk_map.live, live, __ATOMIC_RELEASE);
}

void map_cover(size_t slot_count) {
    hk_assert(slot_count > 0 && slot_count <= UINT32_MAX);
    if (slot_count <= map_count())
        return;
    /* Release: the memory behind the entries is mapped by now. */
    __atomic_store_n(&hk_map.count, slot_count, __ATOMIC_RELEASE);
}

void map_reset_live(slot_t slot, unsigned count) {
    hk_assert(slot != 0 && count > 0);
    hk_assert(slot + count <= map_count());
    const sys_range_t range = map_live_range(slot, count);
    uint64_t *words = range.address;
    size_t word_count = range.size / sizeof *words;
    if (!HK_TSAN)
        memset(words, 0, word_count * sizeof *words);
    for (size_t i = 0; HK_TSAN && i < word_count; i++)
        hk_write(words[i], 0);
}
