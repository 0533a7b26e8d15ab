/* SPDX-License-Identifier: MIT
 *
 * magazine.h: between the program and the slabs: refill, and capacities that follow the load.
 *
 * A refill fills half of the capacity, a flush empties half, so that a program that swings around a level touches the
 * slabs once in capacity / 2 calls. Capacity starts small and doubles when a class refills or flushes twice within one
 * tick (4 MiB allocated); a class that is not used for a few ticks gives all its blocks back.
 *
 * For the heap's thread, but where it says otherwise.
 */
#pragma once

#include "heap/heap.h"

/* A block of the class: from the magazine, filled if need be. NULL when memory is out. */
void *magazine_alloc(heap_t *h, unsigned cls);

/* Classes earn a magazine (class_is_earned, and all large ones): whether the thread has asked for the class a few
 * times within one tick, this time included, and it is a quarter of what the thread asked for of such classes; of the
 * longest ones, whether it has asked a few times. */
bool magazine_is_earned(heap_t *h, unsigned cls);

/* Large classes: the run on top of the magazine, or NULL; and whether the magazine takes a run (it is earned, and there
 * is room), which is then tagged. */
void *magazine_take_large(heap_t *h, unsigned cls);
bool magazine_wants_large(heap_t *h, unsigned cls);

/* Puts a block into its magazine, making room if need be. */
void magazine_free(heap_t *h, unsigned cls, void *block);

/* Empties all magazines and returns their arrays. The heap's thread, or anybody once the thread is gone. Takes the
 * lock. */
void magazine_drop_all(heap_t *h);

/* Empties the magazines of runs alone, and returns their arrays. */
void magazine_drop_large(heap_t *h);

/* Empties all magazines of a thread that is over. Small arrays stay for the thread that uses the heap next: threads
 * that come and go are mostly alike. The heap's thread, or anybody once the thread is gone. Takes the lock. */
void magazine_retire_all(heap_t *h);

/* In the child of a fork, before the heap of a thread that does not exist there is emptied: it may have been between
 * two steps. */
void magazine_mend(heap_t *h);

/* Whether a frame of malloc or free below this one has changed the count of a magazine and not yet its top, or the
 * other way round, so that the magazine seems to be empty with a block on top. The heap's thread, in a signal handler.
 * (Other states between two steps may lose a block. Before the first step the frame may hold the block on top in a
 * register alone: in a child that allocates in the handler and then returns from it, both have that block. Nothing in
 * memory tells; docs/compatibility.md says what a child may do.) */
bool magazine_is_between(const heap_t *h);

/* Lets capacities follow the load since the last tick. */
void magazine_tick(heap_t *h);
