/* SPDX-License-Identifier: MIT
 *
 * record.h: the records of heaps that are nobody's. Most of one is counts and empty lists: the counts move to the
 * shared heap, and the pages go back to the system, so that thousands of threads that are over leave a page each.
 */
#pragma once

#include "core/lock.h"
#include "heap/heap.h"

/* Held while counts move from one heap to another, and by whoever adds up those of all heaps. */
extern hk_lock_t hk_record_lock;

/* Moves the counts of a heap without slabs and magazines to the shared heap and gives back whole pages of its record.
 * The heap is the caller's alone (RETIRING). */
void heap_record_give_back(heap_t *h);
