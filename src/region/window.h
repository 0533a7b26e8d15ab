/* SPDX-License-Identifier: MIT
 *
 * window.h: where superslabs and our own records lie.
 *
 *   window.base
 *   | superslab 0 | superslab 1 | ... superslab_max - 1 |        ... | area |      ... | area |   | area | ...
 *     (never used)  2 MiB each, blocks                               arrays of our records
 *
 * Each area has a random place of its own.
 *
 * Unknown to an attacker are 15 bits of the base and 6 of the first superslab that is used, and at levels 2 and 3 of
 * each single one (superslab/scatter.h); and of each area 24 bits or more, so that the address of a block tells nothing
 * of the place of any record.
 *
 * Where fixed places cannot be had (Valgrind, ThreadSanitizer, small address spaces), a hole found by the kernel holds
 * all of it, the areas behind the superslabs.
 *
 * Constant after region_init.
 */
#pragma once

#include "base/base.h"

enum {
    HK_SLOT_SHIFT = 16,
    HK_SUPERSLAB_SHIFT = 21,
    HK_SLOTS_PER_SUPERSLAB = 32,
};
#define HK_SLOT_SIZE      ((size_t)1 << HK_SLOT_SHIFT)
#define HK_SUPERSLAB_SIZE ((size_t)1 << HK_SUPERSLAB_SHIFT)

/* An array of our own records, claimed as far as it is needed. */
typedef enum region_area {
    REGION_AREA_STATE,      /* three bits a superslab: region/index */
    REGION_AREA_TABLE,      /* slot table: map/ */
    REGION_AREA_LIVE,       /* live bits: map/ */
    REGION_AREA_SUPERSLABS, /* superslab records: superslab/ */
    REGION_AREA_SLABS,      /* slab records: slab/ */
    REGION_AREA_HEAPS,      /* heaps: heap/ */
    REGION_AREA_META,       /* everything else: map/meta */
    REGION_AREA_COUNT
} region_area_t;

/* For the fast path of x86-64, see map/map.h. ThreadSanitizer leaves few addresses. */
#define REGION_HAS_LIVE_ORIGIN (HK_X86_64 && !HK_TSAN)

typedef struct region_window {
    uintptr_t base;       /* multiple of 1 GiB, so that slot numbers are aligned as addresses are */
    size_t superslab_max; /* superslabs that fit */
    uintptr_t areas[REGION_AREA_COUNT];
    size_t area_sizes[REGION_AREA_COUNT]; /* as far as they may grow */
    uintptr_t live_origin; /* where address 0 would have its live bits; mapped if REGION_HAS_LIVE_ORIGIN */
} region_window_t;

extern region_window_t hk_window HK_HIDDEN;

/* Bytes of an area for each superslab; of the areas that are no arrays of superslabs, their share of the window. */
size_t window_area_share(region_area_t area);

/* Slab records, live bits and everything else are 1.3 % of a heap of small blocks: a page fault in five if they had
 * small pages only. */
HK_INLINE bool window_may_be_huge(region_area_t area) {
    return area == REGION_AREA_SLABS || area == REGION_AREA_META || area == REGION_AREA_LIVE;
}

HK_INLINE char *region_superslab_address(size_t index) {
    return (char *)(hk_window.base + (index << HK_SUPERSLAB_SHIFT));
}
