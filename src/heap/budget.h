/* SPDX-License-Identifier: MIT
 *
 * budget.h: how much may lie free in the heaps of threads, as what each keeps adds up.
 *
 * What counts: the threads that have a heap, the processors that the process may use, what is in use, what the heap
 * owns, and whether a limit is near. With more than eight threads a processor the process is oversubscribed, with
 * forty heavily: most of its threads must be asleep, and what is kept counts more than a lock that nobody else wants.
 *
 * Any thread, without a lock. The processors are looked at when threads start, now and then.
 */
#pragma once

#include "heap/heap.h"

typedef enum heap_press { HEAP_ROOM, HEAP_OVERSUBSCRIBED, HEAP_HEAVILY } heap_press_t;

/* How oversubscribed the process is. Near a limit it counts as oversubscribed. */
heap_press_t heap_press(void);

HK_INLINE bool heap_is_oversubscribed(void) { return heap_press() != HEAP_ROOM; }

/* Threads that may have a heap before the process is oversubscribed; and with so many processors. */
uint32_t heap_threads_at_ease(void);
uint32_t budget_threads_for(uint64_t cpus);

/* Bytes that the magazines of a heap may be able to hold, which owns `owned` bytes of slots, of `in_use` in all heaps
 * of so many threads: every block in one keeps a slab from emptying. The more threads, the smaller is the part. */
size_t budget_bytes(size_t owned, size_t in_use, size_t threads, heap_press_t press);

/* Whether the heap's magazines may be able to hold so much more. */
bool budget_allows(const heap_t *h, size_t more_bytes);

/* The bound for a class whose blocks change threads, when oversubscribed. Its slabs go to the threads that run, so the
 * bytes that a heap owns say little. Blocks in magazines serve nobody while their thread waits for a processor. */
size_t budget_passed_bytes(size_t threads);
size_t budget_passed_now(void);
bool budget_allows_passed(const heap_t *h, size_t more_bytes);

/* Bytes of free slots that a heap may keep for its next runs, while it has `live` bytes of runs. */
size_t budget_slot_bytes(size_t live);

/* Threads that have a heap, at least 1. */
size_t budget_threads(void);

/* A thread has a heap from now on; has none any more; counted anew. */
void budget_thread_came(void);
void budget_thread_left(void);
void budget_set_threads(uint32_t threads);
