/* SPDX-License-Identifier: MIT
 *
 * life.h: birth and death of heaps.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"

/* A heap for a thread that starts: the one that was in use latest. NULL when memory is out. */
heap_t *life_begin(void);

/* The heap's thread is over: it is parked, or emptied. */
void life_end(heap_t *h);

/* Takes a live heap upon the caller when its thread is gone, which is asked for under the heap-list lock; then empties
 * it, without a lock. */
bool heap_claim_gone(heap_t *h, bool (*is_gone)(const heap_t *));
void heap_retire_gone(heap_t *h);

/* In the child of a fork, by its only thread or under the list lock: heaps whose threads do not exist here wait for
 * adoption: those that were theirs, those that they were retiring, or both. */
typedef enum heap_orphans { HEAP_ORPHANS_LIVE = 1, HEAP_ORPHANS_RETIRING = 2, HEAP_ORPHANS_ALL = 3 } heap_orphans_t;
void heap_orphan_others(heap_orphans_t which);

/* Empties one heap that waits for adoption. */
void heap_adopt_orphan(void);

/* Empties the heaps that have been parked since `until_ms` or longer. */
void heap_retire_parked(uint64_t until_ms);

/* Gives back the records of heaps that have been unused since `until_ms` or longer. */
void heap_give_back_records(uint64_t until_ms);

/* Heaps with a live thread. */
size_t heap_live_count(void);
