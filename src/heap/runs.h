/* SPDX-License-Identifier: MIT
 *
 * runs.h: blocks of explicit heaps that have no slab: runs, on a list of the heap, and huge blocks, which the registry
 * knows by their owner. And what the heap has taken from the system, for its limit.
 */
#pragma once

#include "heap/heap.h"

typedef struct heap_totals {
    uint64_t live_bytes, live_blocks, alloc_count;
    size_t taken_bytes, peak_bytes, limit_bytes;
} heap_totals_t;

/* The explicit heap that has the block, which lies in a slab or is a run, with its lock; NULL when none has, by now. */
heap_t *runs_lock_owner(const void *block);

/* A large block. `*zeroed` as large_alloc's. NULL when memory is out or the heap is at its limit. `beside` as in
 * explicit_take. */
void *runs_take(heap_t *h, size_t size, size_t align, const void *beside, bool *zeroed);

/* A block above 1 GiB, or one that the window cannot hold. It reads as zeros. */
void *runs_take_huge(heap_t *h, size_t size, size_t align, const void *beside);

/* Gives back the run at `block`. False when it is, by now, no explicit heap's. *double_free when it is free already. */
bool runs_give(void *block, bool *double_free);

/* Another size for a live run of an explicit heap's: where it is, or by moving its pages too. NULL when that is not
 * possible. */
void *runs_resize(void *block, size_t size, bool may_move);

/* The same for a live huge block of any owner. It asks the limits for growth of an explicit heap alone: who calls it
 * for another block has asked. */
void *runs_resize_huge(void *block, size_t size, bool may_move);

/* False when `beside` is a block that the heap has not any more. */
bool runs_may_take_locked(const heap_t *h, const void *beside);

/* Whether `bytes` more are within the heap's limit. The second takes the lock. */
bool runs_fit_locked(heap_t *h, size_t bytes);
bool runs_fit(heap_t *h, size_t bytes);

/* After the heap has taken more. */
void runs_note_peak_locked(heap_t *h);

/* Gives all back; their usable bytes. */
size_t runs_close_locked(heap_t *h);

/* All become ordinary blocks. */
void runs_leave_locked(heap_t *h);

/* Adds what the heap has of them, and what it has taken in all. */
void runs_add_locked(heap_t *h, heap_totals_t *totals);
