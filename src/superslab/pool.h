/* SPDX-License-Identifier: MIT
 *
 * pool.h: what the files of this room share: the superslabs' records and the rules by which slots come and go.
 * Everything here that says `_locked` is called under hk_superslab_lock; superslab.h is for the other rooms.
 */
#ifndef HK_SUPERSLAB_POOL_H
#define HK_SUPERSLAB_POOL_H

#include "base/bits.h"
#include "region/region.h"
#include "superslab/superslab.h"

enum {
    SLOTS = HK_SLOTS_PER_SUPERSLAB,
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

extern pool_counts_t hk_pool;

HK_INLINE size_t pool_count(const _Atomic size_t *count) { return atomic_load_explicit(count, memory_order_relaxed); }

/* The lock is held: one writer at a time. */
HK_INLINE void pool_change(_Atomic size_t *count, ptrdiff_t by) {
    atomic_store_explicit(count, pool_count(count) + (size_t)by, memory_order_relaxed);
}

HK_INLINE superslab_t *pool_record(size_t index) {
    return (superslab_t *)hk_window.areas[REGION_AREA_SUPERSLABS] + index;
}

HK_INLINE uint32_t pool_index(const superslab_t *s) {
    return (uint32_t)(s - (superslab_t *)hk_window.areas[REGION_AREA_SUPERSLABS]);
}

HK_INLINE size_t pool_superslabs_for(size_t slot_count) { return (slot_count + SLOTS - 1) / SLOTS; }

HK_INLINE slot_t pool_first_slot(const superslab_t *s) { return pool_index(s) * SLOTS; }

/* The pool holds slots of this superslab, or has given them out. */
HK_INLINE bool pool_knows(size_t index) { return index < map_count() / SLOTS && pool_record(index)->in_use; }

/* The free slots of `mask` from which on `count` are free, at multiples of `align` (a power of two). */
uint32_t pool_runs(uint32_t mask, unsigned count, unsigned align);

/* Slots [first, first + count) cut at superslab borders: the part in superslab `*index` as a mask. */
uint32_t pool_part(slot_t first, size_t count, size_t *index, size_t *length);

/* Takes the free slots of `mask`; true when all of them read as zeros. */
bool pool_take_locked(superslab_t *s, uint32_t mask);

/* Gives slots back; the second also returns an empty superslab to the region: one that is given as a whole and clean,
 * and clean ones beyond a few. */
void pool_give_locked(superslab_t *s, uint32_t mask, bool dirty);
void pool_free_locked(size_t index, uint32_t mask, bool dirty);

/* Slots that nobody has used yet. Those that a huge page brings along are resident with it: they serve before anything
 * fresh, or go back, but they read as zeros. */
void pool_give_fresh_locked(superslab_t *s, uint32_t mask, bool brought_along);

/* Takes one superslab from the region, at its place; its slots are all taken then. */
bool pool_open_at_locked(size_t index, bool huge);

/* Takes neighbouring superslabs from the region for `slot_count` slots, the first at a multiple of `align` superslabs;
 * the slots of `tail_mask` in the last are free. 0: memory is out. */
slot_t pool_open_locked(size_t slot_count, size_t align, uint32_t tail_mask, slots_use_t use, bool huge);

/* Takes slots, less than a superslab, that are absent of a part, or from the beginning of one of which the region gives
 * a part. */
slots_t pool_alloc_part_locked(unsigned count, unsigned align, slots_use_t use);

/* Takes slots within one superslab. */
slots_t pool_alloc_within_locked(unsigned count, unsigned align, slots_use_t use);

/* Changes the use of an empty superslab. */
void pool_convert_locked(superslab_t *s, slots_use_t use, bool huge);

/* Huge pages (superslab/huge_pages.c). Whether superslabs that are to be opened for so many slots earn them. */
bool pool_earns_huge_locked(size_t slot_count, slots_use_t use);
bool pool_records_earn_huge(void);

/* Asks the kernel for huge or for small pages. */
void pool_advise_locked(size_t first, size_t count, bool huge);

/* Notes what the superslab is advised for, unless the mappings would become too many. Returns whether it may. */
bool pool_set_huge_locked(superslab_t *s, bool huge);

/* Of a mapping that was not asked about. */
void pool_forget_huge_locked(superslab_t *s);

/* Superslabs of which nothing is resident are taken into use for `slot_count` sparse slots. How those of small pages
 * are filled decides for others. */
void pool_opened_sparse_locked(size_t first, size_t count, size_t slot_count);

/* A superslab of small pages that was opened for `slot_count` slots when `opened` sparse ones had been. */
typedef struct pool_sample {
    uint32_t index; /* 0: none */
    unsigned opened;
    size_t slot_count;
} pool_sample_t;

/* The one that is to be looked at, for who will do so without the lock. */
pool_sample_t pool_due_sample_locked(void);
void pool_look_at(const pool_sample_t *sample);

/* These slots of the superslab are dirty (superslab/dirty.c). */
void pool_set_dirty_locked(superslab_t *s, uint32_t mask);

/* The superslab whose dirty slots wait longest for a purge, or 0; `dirty_next` leads on. */
uint32_t pool_dirty_head_locked(void);

/* The first superslab whose longest run of dirty slots has this length, or 0; `length_next` leads on. */
uint32_t pool_of_length_locked(unsigned length);

/* The shortest such length from `least` on, and the longest below `end`; 0: there is none. */
unsigned pool_length_from_locked(unsigned least);
unsigned pool_length_below_locked(unsigned end);

/* Violations of SUPERSLAB-3 among the `queued` superslabs flagged, of at most `limit`. */
size_t pool_check_dirty_locked(size_t queued, size_t limit);

/* A superslab with `count` dirty slots from a multiple of `align` on, whatever its use, out of the short runs first; or
 * NULL. */
superslab_t *pool_find_warm_locked(unsigned count, unsigned align);

/* Slots are taken of which some went back in haste (superslab/purge.c). */
void pool_regret_locked(superslab_t *s, uint32_t mask);

/* Memory has grown by `slot_count` slots that nothing resident could serve (superslab/purge.c). Without the lock. */
void pool_purge_for_growth(size_t slot_count);

#endif
