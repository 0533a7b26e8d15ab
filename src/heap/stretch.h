/* SPDX-License-Identifier: MIT
 *
 * stretch.h: slots that a heap keeps of the runs that its thread freed last, for the next ones.
 *
 * A thread that takes a long block, fills it, frees it, and takes one of another length would otherwise go to the pool
 * each time, under a lock that all threads share; or to a magazine or a slab for each length, each of them cold. So a
 * heap has one stretch of at most STRETCH_MAX slots. A run is cut from its end, and joins it again when it is freed and
 * lies beside it. Of two that are apart the longer stays.
 *
 * To the pool the slots are taken, and the slot table has nothing there. The stretch goes to the pool when it
 * did not change for a round of upkeep, when the thread ends, and when memory is out. A heap keeps no more
 * runs than it has taken: a thread that frees what others allocate keeps none. Beside many runs none is kept, as it
 * counts then where a run lies; nor near a limit, when oversubscribed, and at levels 2 and 3.
 *
 * The heap's thread alone puts slots in and cuts runs off; anybody takes all away. So a compare-exchange of the one
 * word fails only when the stretch is gone. Who takes it away passes the slots on: it reads the word with acquire, and
 * the thread writes it with release, when its last run there is no run any more. To the child of a fork that took no
 * lock, slots on their way are lost; none belongs to a run and to the stretch.
 */
#pragma once

#include "heap/heap.h"

enum { STRETCH_MAX = 16 };

/* A block of `size` bytes of the heap's stretch; NULL when it does not reach, or `align` is more than a slot.
 * `*zeroed`, if anybody asks, is false. The heap's thread, as the next two. */
void *stretch_take(heap_t *h, size_t size, size_t align, bool *zeroed);

/* A run was taken elsewhere: the heap may keep one. */
HK_INLINE void stretch_note_taken(heap_t *h) { h->stretch_credit |= h->stretch_credit + 1; }

/* Frees a run: large_free, but that the heap may keep its slots. */
bool stretch_free(heap_t *h, void *block);

/* The stretch goes to the pool. */
void stretch_give_back(heap_t *h);

/* Of one heap, and of all. */
HK_INLINE size_t stretch_bytes(const heap_t *h) {
    return (size_t)(uint32_t)atomic_load_explicit(&h->stretch, memory_order_relaxed) << HK_SLOT_SHIFT;
}
size_t stretches_bytes(void);

/* Where a run that ends at `end` is about to grow, the stretch is no obstacle. The heap's thread. */
HK_INLINE void stretch_make_way(heap_t *h, const void *end) {
    if (atomic_load_explicit(&h->stretch, memory_order_relaxed) >> 32 == map_slot(end))
        stretch_give_back(h);
}
