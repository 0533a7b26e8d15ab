/* SPDX-License-Identifier: MIT
 *
 * supply.h: where blocks come from when the magazine has none: slabs of the heap, of the shared heap, of other heaps,
 * new ones.
 */
#pragma once

#include "heap/heap.h"

/* Fills end[-1], end[-2], ... with up to `want` blocks; fewer when that saves opening a slab; 0 when memory is out.
 * Caller holds the heap's lock. */
unsigned heap_take_locked(heap_t *h, unsigned cls, granule_t *end, unsigned want);

/* One block for the program, past the magazine; counted as one that went through it. Takes the lock. */
void *heap_take_one(heap_t *h, unsigned cls, block_past_t *past);

/* One block for the program, past the magazine, from a slab that the heap has already. Opens and adopts none. Takes the
 * lock. */
void *heap_take_one_there(heap_t *h, unsigned cls);

/* Opens a slab of the heap. NULL when memory is out, or a limit is reached. */
slab_t *heap_open_slab_locked(heap_t *h, unsigned cls);

/* The heap's thread frees a block of a slab of class `cls` that no thread owns: it takes the slab, so that this free
 * and those that follow are its own. False when somebody else was faster. Takes the locks. */
bool heap_adopt_freed_slab(heap_t *h, slab_t *slab, unsigned cls);

/* Whether blocks of the class change threads, as far as the heap's thread knows. That thread, or the holder of the
 * heap's lock. */
bool heap_passes_on(const heap_t *h, unsigned cls);

/* Moves every slab to the shared heap, closing the empty ones. Caller holds the heap's lock, and no other. */
void heap_hand_over_locked(heap_t *h);
