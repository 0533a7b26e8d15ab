/* SPDX-License-Identifier: MIT
 *
 * unnoticed.h: heaps of threads whose end libc does not tell, as no thread-specific key was left for us, or may not
 * tell any more, as the thread is at its last: it came to its heap in a late round of key destructors.
 *
 * Such a heap carries the number of its thread, heap_t.thread: that of the process and that of the thread, as the
 * kernel has them. A round asks the kernel now and then whether the thread still exists. One that does not is in no
 * step of malloc or free and comes back to none, so that any thread may empty its heap: LIVE --gone-->
 * RETIRING --> UNUSED.
 *
 * A thread that is at its last writes the address of its thread-local storage instead, so that none makes a call as it
 * ends. Of the next thread with that address, which comes soon where threads come and go, and has no heap yet, it is
 * known that it is another one: the heap is emptied then. What the thread before did is seen by that one, as libc gives
 * it the place only when the kernel has said that the other is gone.
 *
 * UNNOTICED-1  the number is written by the heap's thread, which takes it away again where its end is told, or, to 0,
 *              by the one that has claimed the heap of a thread that is gone. Any thread reads it.
 * UNNOTICED-2  a number is only asked for in the process that it names: neither in a child, before its number is
 *              written anew, nor in one that shares the memory (vfork(2)).
 *
 * The kernel uses numbers again. A later thread of the process may have that of one that is gone, whose heap then
 * waits: until the later one opens a heap of this kind, or ends too. Never is a heap taken from a thread that exists.
 */
#pragma once

#include "heap/heap.h"

/* For the calling thread, whose heap this is. */
void unnoticed_note(heap_t *h);

/* In place of its number, of a thread that is at its last. No process id has this bit. */
HK_INLINE uint64_t unnoticed_place(void) { return UINT64_C(1) << 63 | (uintptr_t)hk_thread_self(); }

/* 0: its end is told. */
void unnoticed_set(heap_t *h, uint64_t number);

/* Empties the heaps of threads that are gone. Neither libc nor thread-local storage, no lock. */
void unnoticed_end_gone(void);

/* Empties some of them, for a thread that starts: those of its address, and it looks at a few others, so that where
 * threads come and go as many end as begin. */
void unnoticed_end_some(void);

/* In the child of a fork, by its one thread. */
void unnoticed_after_fork(void);
