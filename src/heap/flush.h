/* SPDX-License-Identifier: MIT
 *
 * flush.h: blocks leave a magazine: for the free bits of the heap's own slabs, for other heaps, and runs for the pool.
 *
 * For the heap's thread, or for anybody once the thread is gone. The functions take the heap's lock.
 */
#pragma once

#include "heap/heap.h"

/* Gives the `count` blocks that have been in the magazine longest back to their slabs. */
void magazine_flush(heap_t *h, unsigned cls, unsigned count);

/* Gives blocks straight back to their slabs, whosever they are; `counted` of them, which no count of the class knows
 * yet, as freed. What `blocks` holds is undefined then. */
void heap_give_batch(heap_t *h, unsigned cls, granule_t *blocks, unsigned count, unsigned counted);

/* One block, counted. */
void magazine_give_one(heap_t *h, unsigned cls, void *block);

/* Double frees that were found under the lock, where no report may be made: taken there, and reported later. */
double_frees_t heap_take_double_frees_locked(heap_t *h);
void heap_report_double_frees(const heap_t *h, const double_frees_t *double_frees);
