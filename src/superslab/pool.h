/* SPDX-License-Identifier: MIT
 *
 * pool.h: the superslabs' records and counts, which all of this room works on. Everything that says `_locked` is called
 * under hk_superslab_lock.
 */
#pragma once

#include "base/bits.h"
#include "core/lock.h"
#include "core/panic.h"
#include "map/map.h"
#include "region/region.h"

/* The lists of superslabs with dirty slots: superslab/dirty.h. */
enum { POOL_QUEUE, POOL_OF_LENGTH, POOL_LISTS };

typedef struct superslab {
    uint32_t free_mask;
    uint32_t dirty_mask;
    uint32_t next, previous; /* bin list, indexes of superslabs, 0 ends */
    struct pool_links {
        uint32_t next, previous;
    } links[POOL_LISTS];
    uint16_t use;        /* slots_use_t */
    uint8_t order, room; /* the bin it is in */
    uint8_t length;      /* of the longest stretch of dirty slots in it */
    bool binned : 1, queued : 1;
    bool huge : 1;         /* its mapping was advised to use huge pages; outlives the superslab */
    bool in_use : 1;       /* known to the pool: it holds slots or is in a bin */
    bool was_clean : 1;    /* no slot was dirty when it came into its bin */
    uint32_t purging_mask; /* slots taken out of free_mask while their pages go back */
    uint32_t zeros_mask;   /* dirty because a huge page brought them along: they read as zeros; subset of dirty_mask */
    uint32_t small_mask;   /* slots that were taken last for small blocks */
    uint32_t present_mask; /* the slots that are mapped */
    uint32_t hasty_mask;   /* slots that went back in haste at `hasty_ms`, and were not taken since; */
    uint32_t hasty_ms;     /* ... both outlive the superslab */
} superslab_t;

_Static_assert(sizeof(superslab_t) == 64, "one line a superslab, as region/window.c lays it out");

extern hk_lock_t hk_superslab_lock HK_HIDDEN;

typedef struct slots {
    slot_t first; /* 0: memory is out */
    bool zeroed;  /* every page of them reads as zeros */
} slots_t;

/* What the slots are for. Dense slots hold small blocks, so that every page of them will be touched: huge pages and
 * prefaulting pay. Sparse slots hold blocks of pages of which a program may touch a few only: they get huge pages when
 * the program fills such slots. A run longer than a superslab is dense when the program is expected to fill it. From
 * SLOTS_USES on: these two for slabs of one class alone, in private superslabs (slots_use_of_class). With SLOTS_CLEAN
 * clean slots serve before dirty ones: little of them will be used, and what is resident is there for who fills it. */
typedef unsigned slots_use_t;
enum { SLOTS_DENSE, SLOTS_SPARSE, SLOTS_USES, SLOTS_CLASSES_MAX = 128, SLOTS_CLEAN = 1 << 12 };

enum {
    SLOTS = HK_SLOTS_PER_SUPERSLAB,
    ORDER_COUNT = 6, /* aligned stretches of 1, 2, 4, 8, 16, 32 slots */
    PAIR = 2, /* runs shorter than so many superslabs go by what was seen of others; longer ones: large/filling.c */
};
#define ALL_SLOTS UINT32_MAX

/* Counts of slots, and of superslabs; written under the lock but for `used`, read by anybody without. */
typedef struct pool_counts {
    _Atomic size_t free; /* `dirty` of them are dirty */
    _Atomic size_t dirty;
    _Atomic size_t purging; /* taken out of the pool to be given back to the kernel */
    _Atomic size_t used;    /* whose pages are known to have been used in full */
    _Atomic size_t superslabs;
    _Atomic size_t present; /* slots of these: all, but for those of parts */
} pool_counts_t;

extern pool_counts_t hk_pool HK_HIDDEN;

HK_INLINE size_t pool_count(const _Atomic size_t *count) { return atomic_load_explicit(count, memory_order_relaxed); }

/* The lock is held: one writer at a time. */
HK_INLINE void pool_change(_Atomic size_t *count, ptrdiff_t by) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(by >= 0 || pool_count(count) >= (size_t)-by);
    atomic_store_explicit(count, pool_count(count) + (size_t)by, memory_order_relaxed);
}

HK_INLINE superslab_t *pool_record(size_t index) {
    hk_assert(index <= hk_window.superslab_max);
    return (superslab_t *)hk_window.areas[REGION_AREA_SUPERSLABS] + index;
}

HK_INLINE uint32_t pool_index(const superslab_t *s) {
    hk_assert((uintptr_t)s - hk_window.areas[REGION_AREA_SUPERSLABS] < hk_window.area_sizes[REGION_AREA_SUPERSLABS]);
    return (uint32_t)(s - (superslab_t *)hk_window.areas[REGION_AREA_SUPERSLABS]);
}

HK_INLINE size_t pool_superslabs_for(size_t slot_count) { return (slot_count + SLOTS - 1) / SLOTS; }

HK_INLINE slot_t pool_first_slot(const superslab_t *s) { return pool_index(s) * SLOTS; }

/* The pool holds slots of this superslab, or has given them out. */
HK_INLINE bool pool_knows(size_t index) { return index < map_count() / SLOTS && pool_record(index)->in_use; }

HK_INLINE bool slots_are_sparse(slots_use_t use) { return use % SLOTS_USES == SLOTS_SPARSE; }

HK_INLINE bool pool_is_private(const superslab_t *s) { return s->use >= SLOTS_USES; }

/* Whether its slots are for the same class as those of `use`, or both are shared. */
HK_INLINE bool pool_is_of(const superslab_t *s, slots_use_t use) { return s->use / SLOTS_USES == use / SLOTS_USES; }

/* The free slots that anything may take. */
HK_INLINE uint32_t pool_shared_mask(const superslab_t *s) { return pool_is_private(s) ? 0 : s->free_mask; }

/* The free slots of `mask` from which on `count` are free, at multiples of `align` (a power of two). */
uint32_t pool_stretches(uint32_t mask, unsigned count, unsigned align);

/* The order of the largest aligned stretch in the mask; 0 when it is empty. */
unsigned pool_largest_order(uint32_t mask);

/* Slots [first, first + count) cut at superslab borders: the part in superslab `*index` as a mask. */
HK_INLINE uint32_t pool_part(slot_t first, size_t count, size_t *index, size_t *length) {
    hk_assert(first != 0 && count > 0);
    unsigned at = first % SLOTS;
    *index = first / SLOTS;
    *length = hk_min(count, SLOTS - at);
    return (uint32_t)(hk_low_mask64((unsigned)*length) << at);
}

/* Slots whose pages are known to have been used in full: what "a large heap" is measured by. `by` may be negative. */
void slots_count_used(ptrdiff_t by);
