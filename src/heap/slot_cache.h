/* SPDX-License-Identifier: MIT
 *
 * slot_cache.h: slots that a heap keeps of the runs that its thread freed last, for the next ones.
 *
 * A thread that takes a few long blocks, fills them, frees them, and takes others of other lengths would otherwise go
 * to the pool each time, under a lock that all threads share; or to a magazine or a slab for each length, each of them
 * cold. So a heap keeps free slots of a few superslabs, each in one word:
 *
 *     63            32 31             0
 *     | the superslab | its slots here |
 *
 * A run is cut from the shortest stretch of them that serves. One that is freed joins the word of its superslab. Where
 * no word has that, it takes the place of the word with the fewest slots, if these are fewer; else it goes to the pool.
 *
 * To the pool the slots are taken, and the slot table has nothing there. They go to the pool with each round of upkeep
 * (with HAKMEM_PURGE_DELAY=-1 there is none), when the thread ends, when memory is out, when a run of the heap is about
 * to grow, and before a slab is opened while few slots are free. How many they may be is in budget.h. A heap keeps no
 * more runs than it has taken: a thread that frees what others allocate keeps none. Beside many runs none is kept, as
 * it counts then where a run lies; nor near a limit, when oversubscribed, and at levels 2 and 3.
 *
 * The heap's thread alone puts slots in and cuts runs off; anybody takes a whole word away. So a compare-exchange of a
 * word fails only when its slots are gone. Who takes them away passes them on: it reads the word with acquire, and the
 * thread writes it with release, when its last run there is no run any more. To the child of a fork that took no lock,
 * slots on their way are lost; none belongs to a run and to the cache.
 */
#pragma once

#include "heap/heap.h"
#include "superslab/superslab.h"

enum { SLOT_CACHE_RUN_MAX = SLOTS }; /* slots of a run that may be kept: a word has those of one superslab */

/* Another thread has the heap from now on, and what that before it took or freed says nothing. */
HK_INLINE void slot_cache_begin(heap_t *h) {
    h->runs_before = atomic_load_explicit(&h->large.live_bytes, memory_order_relaxed);
    h->slot_cache_credit = 0;
}

/* A block of `size` bytes of the heap's slots; NULL when none is as long, or `align` is more than a slot. `*zeroed`, if
 * anybody asks, is false. The heap's thread, as the next two. */
void *slot_cache_take(heap_t *h, size_t size, size_t align, bool *zeroed);

/* A run is taken, here or from the pool: the heap may keep one. */
HK_INLINE void slot_cache_note_taken(heap_t *h) { h->slot_cache_credit |= h->slot_cache_credit + 1; }

/* Frees a run: large_free, but that the heap may keep its slots. */
bool slot_cache_free(heap_t *h, void *block);

/* All slots go to the pool. */
void slot_cache_give_back(heap_t *h);

/* Bytes of one heap's slots, and of all heaps'. */
size_t slot_cache_bytes(const heap_t *h);
size_t slot_caches_bytes(void);
