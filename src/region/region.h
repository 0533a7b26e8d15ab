/* SPDX-License-Identifier: MIT
 *
 * region.h: hakmem's window of address space.
 *
 * The window is a range of addresses, picked at random at start, in which nobody else maps anything. Nothing of it is
 * reserved: pieces are claimed (mapped, exactly there, never over somebody else's mapping) when they are needed. The
 * process therefore pays RLIMIT_AS, overcommit accounting and VIRT only for what it uses, and every record of ours is
 * found by arithmetic.
 *
 *   window.base                                                                     window.base + window size
 *   | superslab 0 | superslab 1 | ...  superslab_max - 1 | area 0 | area 1 | ... |
 *     (never used)  2 MiB each, blocks                     arrays of our records
 *
 * The first superslab used is random too: 15 bits of the base and 6 of the start are unknown to an attacker.
 *
 * Superslab states:  UNCLAIMED --claim--> USED --release--> FREE (claimed, reads as zeros) --alloc--> USED
 *                    FREE --unclaim--> UNCLAIMED          FOREIGN: somebody else's mapping is there, never used
 *
 * REGION-1  a USED superslab belongs to exactly one caller of region_alloc.
 * REGION-2  memory handed out by region_alloc reads as zeros.
 * REGION-3  superslabs at or above `frontier` are UNCLAIMED.
 *
 * All functions are thread-safe; state is guarded by the region lock, `window` is constant after region_init.
 */
#ifndef HK_REGION_H
#define HK_REGION_H

#include "base/base.h"
#include "core/lock.h"

enum {
    HK_SLOT_SHIFT = 16,
    HK_SUPERSLAB_SHIFT = 21,
    HK_SLOTS_PER_SUPERSLAB = 32,
};
#define HK_SLOT_SIZE      ((size_t)1 << HK_SLOT_SHIFT)
#define HK_SUPERSLAB_SIZE ((size_t)1 << HK_SUPERSLAB_SHIFT)

/* An array of our own records, claimed from its start as far as it is needed. */
typedef enum region_area {
    REGION_AREA_STATE,      /* one byte a superslab: region.c */
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
    size_t area_sizes[REGION_AREA_COUNT];
    uintptr_t live_origin; /* where address 0 would have its live bits; mapped if REGION_HAS_LIVE_ORIGIN */
} region_window_t;

extern region_window_t hk_window;
extern hk_lock_t hk_region_lock;

/* Finds the window. Returns 0 or ENOMEM. Called once, before anything else here. */
int region_init(void);

/* Takes `count` contiguous superslabs whose first index is a multiple of `align` (a power of two). Returns the first
 * index (never 0), or 0 when memory is out. */
size_t region_alloc(size_t count, size_t align);

/* Tries to take exactly the superslabs [first, first + count): growth in place. */
bool region_alloc_at(size_t first, size_t count);

/* Whether superslab `index` is nobody's, as far as is known: a hint for region_alloc_at. */
bool region_may_serve(size_t index);

/* Gives superslabs back. Their pages must have been given back to the kernel before (REGION-2). */
void region_release(size_t first, size_t count);

/* Makes the first `size` bytes of an area usable. Returns 0 or ENOMEM. */
int region_area_cover(region_area_t area, size_t size);

/* Whether the heap is large enough for huge pages in the areas of slab records, live bits and everything else: from their first
 * border of one on, as they grow. */
void region_earn_huge_records(bool earned);
bool region_has_huge_records(void);

/* Bytes claimed for superslabs, and for our own records. */
size_t region_claimed_bytes(void);

/* sys_map_at and sys_map_over for a piece of the window, without huge pages that nobody asked for (a kernel set to `always`). */
int region_map_at(void *address, size_t size);
int region_map_over(void *address, size_t size);
size_t region_peak_bytes(void);
size_t region_area_bytes(void);
size_t region_area_size(region_area_t area); /* of one area */

/* One past the highest superslab ever used. */
size_t region_frontier(void);

/* True when address space is scarce, so that free superslabs are unmapped rather than kept. */
bool region_is_tight(void);

HK_INLINE char *region_superslab_address(size_t index) {
    return (char *)(hk_window.base + (index << HK_SUPERSLAB_SHIFT));
}

#endif
