/* SPDX-License-Identifier: MIT
 *
 * explicit.h: heaps that the program makes (hak_heap_new): slabs, runs and huge blocks that can go all at once.
 *
 * An explicit heap is a heap_t that no thread owns, with an id from HK_OWNER_EXPLICIT on. Blocks come from slabs under
 * the heap's lock, so that any thread may call anything at any time: one by one, or many at once into the magazines
 * that a thread has of the heap that it uses (lease.h). In place of the front it has a heap_own_t.
 *
 *   UNUSED --explicit_make--> EXPLICIT --explicit_end_locked--> UNUSED
 *
 * EXPLICIT-1  a block of an explicit heap that is free lies in its slab's free bits or in a lease of the heap, and
 *             nowhere else: never in a remote table, a message, a quarantine, or a purge under way. What waited
 *             there would be given to whatever came to the slots after the heap's end, which finds all leases. Model:
 *             docs/models/explicit.pml.
 * EXPLICIT-2  live bits of its slabs are changed by atomic operations alone, or where a block has a byte of them for
 *             itself. The call that hands a block out sets its bit, the free that counts clears it: a
 *             clear one is proof.
 * EXPLICIT-3  its slabs hold blocks of no other heap: it adopts none, and none is taken from it but by
 *             explicit_hand_over_locked.
 * EXPLICIT-4  a large block that is live has the tag map_tag(id) | HK_CLASS_COUNT and its live bit, and is on the list
 *             `runs`.
 *
 * Ids and names are guarded by hk_heap_list_lock, everything else by the heap's lock.
 */
#pragma once

#include "heap/heap.h"
#include "heap/runs.h"

/* A new heap; `name` may be NULL. `limit` is of bytes of slots and mappings, 0 none. NULL with *error ENOMEM or EAGAIN
 * (too many). */
heap_t *explicit_make(const char *name, size_t limit, int *error);

/* The heap of the name that was made first, or NULL. */
heap_t *explicit_named(const char *name, size_t length);

/* Whether `handle` is an explicit heap that has not ended. Reads only records. */
bool explicit_is_one(const void *handle);

/* A block of the class or of a slightly larger one, whose size is a multiple of `align`; its live bit is set. NULL when
 * there is no memory or the heap is at its limit. `beside`, unless it is NULL, is a live block that the caller has, and
 * NULL is the answer too when it is no block of this heap any more: the heap was released. */
void *explicit_take(heap_t *h, unsigned cls, size_t align, const void *beside, block_past_t *past);

/* A block of the class, and some more into the thread's lease of the heap. NULL when it has none, or when no slab that
 * is there has room. */
void *explicit_refill(heap_t *thread, heap_t *h, unsigned cls);

/* Gives back a block of a slab, whose live bit the caller has cleared. False when the slab is, by now, no explicit
 * heap's. *double_free when it is free already. */
bool explicit_give(const void *block, unsigned cls, bool *double_free);

/* Gives back everything. Returns the usable bytes of the blocks that were live. */
size_t explicit_close_all(heap_t *h);

/* Everything that is live becomes the shared heap's. Caller holds the lock under which counts move
 * (upkeep/record.h). */
void explicit_hand_over_locked(heap_t *h);

/* The heap is empty and ends: its counts go to the shared heap, its id to the next. Caller holds the heap-list lock,
 * and then that under which counts move. */
void explicit_end_locked(heap_t *h);

/* Takes the lock. */
void explicit_totals(heap_t *h, heap_totals_t *totals);

/* Blocks of each class with slabs. */
typedef struct explicit_counts {
    uint64_t allocs[HK_CLASS_COUNT]; /* ever handed out */
    uint64_t live[HK_CLASS_COUNT];
    uint64_t leased[HK_CLASS_COUNT]; /* free, in leases */
} explicit_counts_t;

/* Caller holds the lock. */
void explicit_count_locked(heap_t *h, explicit_counts_t *counts);
