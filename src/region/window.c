/* SPDX-License-Identifier: MIT */
#include "region/window.h"

enum {
    HEAP_AREA_SHARE = 256, /* the heaps' area is this part of the window */
    META_AREA_SHARE = 64,
};

region_window_t hk_window;

size_t window_area_share(region_area_t area) {
    static const size_t shares[REGION_AREA_COUNT] = {
        [REGION_AREA_STATE] = 1, /* three bits */
        [REGION_AREA_TABLE] = HK_SLOTS_PER_SUPERSLAB * 4,
        [REGION_AREA_LIVE] = HK_SUPERSLAB_SIZE / 128,
        [REGION_AREA_SUPERSLABS] = 64,
        [REGION_AREA_SLABS] = HK_SLOTS_PER_SUPERSLAB * 128,
        [REGION_AREA_HEAPS] = HK_SUPERSLAB_SIZE / HEAP_AREA_SHARE,
        [REGION_AREA_META] = HK_SUPERSLAB_SIZE / META_AREA_SHARE,
    };
    return shares[area];
}
