/* SPDX-License-Identifier: MIT
 *
 * superslab.h: the slot pool.
 *
 * A superslab is 2 MiB of the region, 32 slots of 64 KiB. Slots of any use lie side by side. New slots come from the
 * fullest superslab that has room, so that the emptiest drain and go back whole.
 *
 *     free_mask   1 = the slot is free
 *     dirty_mask  1 = the slot is free and its pages may be resident; subset of free_mask
 *
 *   USED --slots_free--> FREE, DIRTY --purge--> FREE, clean --whole superslab free--> region
 *
 * Superslabs with a free slot wait in a bin by their use (dense or sparse), by the largest aligned run of free slots
 * and by the number of free slots. Empty ones without a dirty slot come last: what nobody needed and was given back
 * stays with the kernel. Dense slots may come from sparse superslabs, not the other way round.
 * Those with dirty slots wait in a queue, oldest first, and in lists by the longest run of such slots. Everything is
 * guarded by the superslab lock; purging itself (the system call) is done without it, on slots taken out of free_mask
 * for the time.
 *
 * Where the kernel refuses memory, a superslab may be a *part*: of its slots only some are *present*, that is mapped.
 * The others are absent: never free, never taken, and perhaps somebody else's. A part comes into being when a whole
 * superslab was refused, with so many slots as could be had by halves, and when free slots are unmapped so that a block
 * gets a mapping of its own. Absent slots are mapped again when nothing else serves. A part has small pages, and goes
 * back to the region with its last slot, dirty or not.
 *
 *     present_mask  1 = the slot is mapped by us
 *
 * SUPERSLAB-1  dirty_mask is a subset of free_mask, zeros_mask of dirty_mask, free_mask of present_mask.
 * SUPERSLAB-2  a superslab is in a bin exactly when free_mask is not 0, and in the bin that its mask says.
 * SUPERSLAB-3  a superslab is in the dirty queue exactly when its dirty_mask is not 0, which its `queued` flag says,
 *              and then in the list of its longest run of dirty slots.
 * SUPERSLAB-4  a part never lies free as a whole, and has no huge pages.
 */
#ifndef HK_SUPERSLAB_H
#define HK_SUPERSLAB_H

#include "base/base.h"
#include "core/lock.h"
#include "map/map.h"

typedef struct superslab {
    uint32_t free_mask;
    uint32_t dirty_mask;
    uint32_t next, previous;             /* bin list, indexes of superslabs, 0 ends */
    uint32_t dirty_next, dirty_previous; /* dirty queue */
    uint8_t order, rank;                 /* the bin it is in */
    bool binned, queued;
    bool dense;            /* for slots whose every page will be used */
    bool huge;             /* its mapping was advised to use huge pages; outlives the superslab */
    bool in_use;           /* known to the pool: it holds slots or is in a bin */
    uint32_t purging_mask; /* slots taken out of free_mask while their pages go back */
    uint32_t zeros_mask;   /* dirty because a huge page brought them along: they read as zeros; subset of dirty_mask */
    uint32_t length_next, length_previous; /* list by `length` */
    uint8_t length;                        /* of the longest run of dirty slots in it */
    uint32_t present_mask;                 /* the slots that are mapped */
    uint32_t hasty_mask;                   /* slots that went back in haste at `hasty_ms`, and were not taken since; */
    uint32_t hasty_ms;                     /* ... both outlive the superslab */
} superslab_t;

_Static_assert(sizeof(superslab_t) == 64, "one line a superslab, as region.c lays it out");

extern hk_lock_t hk_superslab_lock;

typedef struct slots {
    slot_t first; /* 0: memory is out */
    bool zeroed;  /* every page of them reads as zeros */
} slots_t;

/* What the slots are for. Dense slots hold small blocks, so that every page of them will be touched: huge pages and
 * prefaulting pay. Sparse slots hold blocks of pages of which a program may touch a few only: they get huge pages when
 * the program fills such slots. A run longer than a superslab is dense when the program is expected to fill it. */
typedef enum slots_use { SLOTS_DENSE, SLOTS_SPARSE, SLOTS_USES } slots_use_t;

/* Takes `count` contiguous slots, the first a multiple of `align` slots (a power of two). */
slots_t slots_alloc(size_t count, size_t align, slots_use_t use);

/* Takes slots that are not resident, for pages that are moved there: what is resident serves others. */
slots_t slots_alloc_clean(size_t count, size_t align);

/* Whether the superslabs of a run have the same kind of pages, so that it can be moved as one mapping. */
bool slots_alike(slot_t first, size_t count);

/* Whether there is a run of dirty slots that would serve. */
bool slots_resident(size_t count, size_t align);

/* Takes exactly the `count` slots from `first`, when all of them are free: growth in place. */
bool slots_alloc_at(slot_t first, size_t count, bool *zeroed);

/* Takes exactly these slots of one superslab, when all of them are free and dirty. */
bool slots_take_dirty(slot_t first, size_t count);

/* Gives slots back; `dirty` when their pages may be resident. */
void slots_free(slot_t first, size_t count, bool dirty);

/* Gives dirty slots back that are about to be used again: they stay resident, however many. */
void slots_free_for_reuse(slot_t first, size_t count);

/* Gives the pages of at most `slot_count` dirty slots back to the kernel, all of a superslab at once, those first that
 * have waited longest; clean empty superslabs beyond a few go back to the region. Returns the bytes given back. */
size_t superslab_purge(size_t slot_count);

/* The least number of slots that were dirty at any time since the last call: so many were free all the time. */
size_t superslab_dirty_low(void);

/* The slots that memory has grown by since the last call, because nothing resident could serve. */
size_t superslab_grown(void);

/* While memory grows: gives so many slots back before their delay is over, as far as superslab/haste.h allows. Returns
 * the bytes. */
size_t superslab_purge_in_haste(size_t slot_count);

/* Whether anything may go in haste; and so many bytes went of what is no slot of the pool. */
bool superslab_may_haste(void);
void superslab_went_in_haste(size_t bytes);

/* Before pages of slabs in superslab `index` are given back: true when that is right. A superslab of huge pages must
 * have enough of it free, `free_bytes` in its slabs included; it is then advised against huge pages for good. */
bool superslab_make_small(size_t index, size_t free_bytes);

/* Slots whose pages are known to have been used in full: what "a large heap" is measured by. `by` may be negative. */
void slots_count_used(ptrdiff_t by);

/* Dirty memory that purging leaves alone (warm-up). */
void superslab_set_floor(size_t bytes);

/* Supplies the pages of fresh slots ahead of use, as HAKMEM_PREFAULT says. Call it without locks or under a heap's. */
void slots_prefault(slot_t first, size_t count);

/* In the child of a fork: slots that were on their way to the kernel come back. */
void superslab_after_fork(void);

/* Waits a little while slots are on their way to the kernel and back. False when there are none. */
bool superslab_wait_purge(void);

/* Returns the empty superslabs kept for reuse to the region, where a long run may need them. */
void superslab_close_empty(void);

/* Unmaps the free slots of all superslabs, where memory is out though some lies free in pieces. Returns the bytes. */
size_t superslab_drop_free(void);

/* Dirty bytes, and those of them that purging does not leave alone; without a lock. */
size_t superslab_dirty_bytes(void);
size_t superslab_waiting_bytes(void);

/* Bytes of slots that are taken or dirty, but not those on their way to the kernel; without a lock. */
size_t superslab_taken_bytes(void);

/* Free slots (dirty or not) and superslabs in use, for statistics. */
typedef struct superslab_totals {
    size_t superslab_count;
    size_t free_slots;
    size_t dirty_slots;
} superslab_totals_t;

superslab_totals_t superslab_totals(void);

/* What superslab `index` looks like right now. */
typedef struct superslab_view {
    uint32_t free_mask, dirty_mask, present_mask;
    bool in_use, huge;
} superslab_view_t;

superslab_view_t superslab_view(size_t index);

/* Verifies SUPERSLAB-1..4; returns the violations found, each printed. */
size_t superslab_check(void);

#endif
