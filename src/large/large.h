/* SPDX-License-Identifier: MIT
 *
 * large.h: blocks of their own run of slots, from 256 KiB on. One that is allocated has up to 1 GiB; one that grows may
 * have more, as its pages move.
 *
 * A block is a run of slots in the window; its record takes the place of the slab record of its first slot. The slot
 * table says HK_MAP_RUN_HEAD for the first slot and HK_MAP_RUN_BODY for the others. What was freed lies in the pool
 * with its pages, where neighbours become one and serve any size; blocks that come and go in one thread wait in the
 * magazine of a large class instead.
 *
 *   LIVE --large_free--> FREE (slots returned, table entries 0)
 *   LIVE --large_hold--> HELD --large_let_go--> FREE
 *                        HELD --large_take_held--> LIVE
 *
 * `state` is the exact guard against double frees: the end of LIVE is one compare-exchange by the freeing thread.
 */
#pragma once

#include "base/base.h"
#include "large/run.h"
#include "map/map.h"
#include "superslab/spare.h"

#include <stdatomic.h>

#define HK_LARGE_MAX HK_GIB

/* Runs and their bytes, counted at the heap that takes or gives them: what all threads counted together they would wait
 * for. Others write only what they free of the heap's runs, in counts of their own. All are modulo their size. Relaxed:
 * no memory is passed on with a count. */
typedef struct large_counts {
    _Atomic uint64_t live_bytes;  /* taken less freed here: only the sum over all heaps means something */
    _Atomic uint64_t taken_bytes; /* allocated, and grown by */
    _Atomic uint64_t allocs, frees;
    _Atomic uint64_t freed_of_others; /* bytes freed here of runs that were taken elsewhere, less what they grew here */
    bool of_one_thread; /* plain stores do: its heap's thread alone counts here, or who retires the heap */
    _Atomic uint8_t alone[HK_CLASS_COUNT - HK_ALONE_FIRST]; /* blocks of each class that lie alone, taken less freed */
    _Atomic uint8_t alone_by_others[HK_CLASS_COUNT - HK_ALONE_FIRST]; /* by others, as the next: atomic additions */
    _Atomic uint64_t freed_by_others;
} large_counts_t;

enum { LARGE_ALONE_MOST = UINT8_MAX }; /* of a class, at a time */

/* A block of at least `size` bytes at a multiple of `align` (a power of two). `*zeroed` tells whether it reads as
 * zeros; NULL when nobody wants zeros. NULL when memory is out. */
void *large_alloc_with_spare(large_counts_t *counts, size_t size, size_t align, bool *zeroed, slots_spare_t *spare);

HK_INLINE void *large_alloc(large_counts_t *counts, size_t size, size_t align, bool *zeroed) {
    slots_spare_t none = {0};
    return large_alloc_with_spare(counts, size, align, zeroed, &none);
}

/* Frees the block at `block`, the start of a run. With `reuse` its pages stay for the next block; without, those of
 * whole superslabs go at once. False when the block is free already. */
bool large_free(large_counts_t *counts, void *block, bool reuse);

/* The caller has slots from the pool, and keeps them: large_begin makes a run of them, large_end ends it. The run must
 * be plain: all of its memory is there as the pool gave it. */
void *large_begin(large_counts_t *counts, slot_t first, size_t slot_count);
bool large_end(large_counts_t *counts, void *block);

/* The run goes on in the `extra` slots behind it, which the caller has. */
void large_extend(large_counts_t *counts, void *block, size_t extra, bool zeroed);
HK_INLINE bool large_is_plain(const void *block) {
    const large_run_t *run = large_run(block);
    return !run->moved && run->fenced_bytes == 0 && !run->fenced_before;
}

/* large_free in two steps, for hardened heaps. A held run is free, but serves nobody until it is let go, with its pages
 * (`dirty`) or after they went, or is taken as it is. */
bool large_hold(large_counts_t *counts, void *block);
void large_let_go(void *block, bool dirty);
void large_take_held(large_counts_t *counts, void *block);

/* Bytes of a run's end that were not asked for, where somebody keeps count: heap/wipe.h. */
void large_set_slack(void *block, size_t slack);
HK_INLINE size_t large_slack(const void *block) {
    return atomic_load_explicit(&large_run(block)->slack, memory_order_relaxed);
}

/* Marks the run as one that heap `owner` keeps in the magazine of large class `cls`, or as an ordinary one (owner
 * 0). */
void large_tag(void *block, uint32_t owner, unsigned cls);

/* Place in the list of its heap of the run that begins in the slot. Under that heap's lock. */
large_links_t *large_links(slot_t first);

/* A live run, taken here, may hold one block in place of a slab of class `cls`; from now on, if it did so for another.
 * Which class, HK_CLASS_COUNT for other runs; and how many do that were taken here. */
void large_set_alone(large_counts_t *counts, void *block, unsigned cls);
unsigned large_alone_class(const void *block);
HK_INLINE unsigned large_alone_count(const large_counts_t *counts, unsigned cls) {
    hk_assert(cls >= HK_ALONE_FIRST && cls < HK_CLASS_COUNT);
    const unsigned i = cls - HK_ALONE_FIRST;
    return (uint8_t)(atomic_load_explicit(&counts->alone[i], memory_order_relaxed) +
                     atomic_load_explicit(&counts->alone_by_others[i], memory_order_relaxed));
}

/* Bytes of live runs that were taken here, modulo 2^64. */
HK_INLINE uint64_t large_live_bytes(const large_counts_t *counts) {
    return atomic_load_explicit(&counts->live_bytes, memory_order_relaxed) +
           atomic_load_explicit(&counts->freed_of_others, memory_order_relaxed) -
           atomic_load_explicit(&counts->freed_by_others, memory_order_relaxed);
}

/* Usable bytes of a live block at `block`. */
size_t large_size(const void *block);
bool large_is_live(const void *block);

/* Start of the run that `address` lies in; its slot's entry is HK_MAP_RUN_*. */
void *large_start(const void *address);

/* Changes the size of a live block in place, or by moving its pages, or with `may_copy` by copying it to where it can
 * grow: what it was then lies free with its contents. NULL when that is not possible: the caller allocates, copies and
 * frees. */
void *large_resize(large_counts_t *counts, void *block, size_t size, bool may_copy);

/* A live block keeps what `size` bytes need, and no room to grow. */
void large_shrink(large_counts_t *counts, void *block, size_t size);

/* Changes the size of a live block where it is; false when that is not possible. `size` is above HK_MID_MAX. */
bool large_resize_here(large_counts_t *counts, void *block, size_t size);
