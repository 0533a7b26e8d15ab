/* SPDX-License-Identifier: MIT
 *
 * lists.h: the slabs that a heap owns, by class and by how full they are (HEAP-2). The caller holds the heap's lock.
 */
#pragma once

#include "heap/heap.h"

void heap_insert_locked(heap_t *h, slab_t *slab);
void heap_remove_locked(heap_t *h, slab_t *slab);

/* Puts the slab into the list where its free_count belongs, or closes it when it is empty and not needed. */
void heap_settle_locked(heap_t *h, slab_t *slab);

/* Closes empty slabs that were kept for reuse. */
void heap_close_spares_locked(heap_t *h);

/* The fullest slab of the class that has room, or an empty one; NULL when there is none. */
slab_t *heap_pick_locked(const heap_t *h, unsigned cls);

/* Closes a slab that is empty. */
void heap_close_slab_locked(heap_t *h, slab_t *slab);
