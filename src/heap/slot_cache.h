/* SPDX-License-Identifier: MIT
 *
 * slot_cache.h: slots that a heap keeps of the runs that its thread took, once they are freed, for the next ones.
 *
 * A thread that takes a few long blocks, fills them, frees them, and takes others of other lengths would otherwise go
 * to the pool each time, under a lock that all threads share; or to a magazine or a slab for each length, each of them
 * cold. So a heap keeps free slots of a few superslabs, each in one word:
 *
 *      63     62            32 31             0
 *     | fresh | the superslab | its slots here |
 *
 * A run is cut from the shortest stretch of them that serves; one that grows, from what lies behind it. One that is
 * freed joins the word of its superslab. Where no word has that, it takes the place of the word with the fewest slots,
 * if these are fewer; else it goes to the pool.
 *
 * Many threads that do so have slots here and there in all superslabs, so that four words hold next to nothing, and
 * each call waits for the pool. A heap whose thread had to wait there uses all words, for as long as the pool is
 * contended; takes what is free around a short run as well, so that each thread comes to have superslabs of its own;
 * and makes room for short runs by giving back the word with the most slots, which is one visit for many. *Fresh* slots
 * came from the pool in that way, are not resident, and read as zeros.
 *
 * The slots of a run go back to the heap that took it, whichever thread frees it: a thread that frees what others
 * allocate keeps none, and one that hands on what it allocates has slots for the next.
 *
 * To the pool the slots are taken, and the slot table has nothing there. They go to the pool with each round of upkeep
 * (with HAKMEM_PURGE_DELAY=-1 there is none), when the thread ends, when memory is out, when a run of the heap grows
 * and finds none of them behind it, when the pool is contended no more, and before a slab is opened while few slots are
 * free. How many they may be is in budget.h. Beside many runs none is kept, as it counts then where a run lies, nor
 * when oversubscribed; but for short runs of a contended heap. None is near a limit, and at levels 2 and 3.
 *
 * The heap's thread alone cuts runs off a word; any thread adds slots to one, and takes a whole one away. Each is one
 * compare-exchange or exchange of the word, which has all there is to know: the same word has the same free slots,
 * whatever it was meanwhile. Who adds releases, and who cuts or takes away acquires: the run was used before. When a
 * slot is added its run is a run no more. Two words may have the same superslab, with other slots. To the child of a
 * fork that took no lock, slots on their way are lost; none belongs to a run and to the cache. Model:
 * docs/models/slot_cache.pml.
 */
#pragma once

#include "heap/heap.h"
#include "superslab/superslab.h"

enum { SLOT_CACHE_RUN_MAX = SLOTS }; /* slots of a run that may be kept: a word has those of one superslab */

/* Another thread has the heap from now on, and what that before it took says nothing. */
HK_INLINE void slot_cache_begin(heap_t *h) {
    hk_write(h->runs_before, large_live_bytes(&h->large));
    hk_write(h->waits, 0);
}

/* A block of `size` bytes: of the heap's slots, or of the pool's when none is as long, or `align` is more than a slot.
 * As large_alloc. The heap's thread, as slot_cache_free and slot_cache_extend. */
void *slot_cache_alloc(heap_t *h, size_t size, size_t align, bool *zeroed);

/* Frees a run: large_free, but that the heap which took it may keep its slots. `*kept`: bytes that it keeps then, 0
 * when these go to the pool. */
bool slot_cache_free(heap_t *h, void *block, size_t *kept);

/* All slots go to the pool. Any thread. */
void slot_cache_give_back(heap_t *h);

/* Whether a live run grew to the slots that `size` bytes need, which are more than it had: into some of the heap (NULL:
 * none), which took the run. */
bool slot_cache_extend(heap_t *h, void *block, size_t size);

/* The slots behind a live run that is about to grow may be the heap's (NULL: none), or of the one that took it: to the
 * pool with them. */
void slot_cache_make_way(heap_t *h, const void *block);

/* Bytes of one heap's slots, and of all heaps'. */
size_t slot_cache_bytes(const heap_t *h);
size_t slot_caches_bytes(void);
