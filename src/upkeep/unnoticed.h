/* SPDX-License-Identifier: MIT
 *
 * unnoticed.h: heaps of threads whose end libc does not tell, as no thread-specific key was left for us.
 *
 * Such a heap carries the number of its thread, heap_t.thread: that of the process and that of the thread, as the
 * kernel has them. A round asks the kernel now and then whether the thread still exists. One that does not is in no
 * step of malloc or free and comes back to none, so that any thread may empty its heap: LIVE --gone-->
 * RETIRING --> UNUSED.
 *
 * UNNOTICED-1  the number is written by the heap's thread, or, to 0, by the one that has claimed the heap of a thread
 *              that is gone. Any thread reads it.
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

/* Empties the heaps of threads that are gone. Neither libc nor thread-local storage, no lock. */
void unnoticed_end_gone(void);

/* Empties some of them, for a thread that starts: it looks at a few heaps, so that where threads come and go as many
 * end as begin. */
void unnoticed_end_some(void);

/* In the child of a fork, by its one thread. */
void unnoticed_after_fork(void);
