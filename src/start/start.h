/* SPDX-License-Identifier: MIT
 *
 * start.h: a thread's heap, from its first allocation to its end.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"

/* The calling thread's heap, started if need be; NULL when the thread is over or memory is out: use the shared heap.
 * NULL also in a stranded process (start/fork.h), where the shared heap is of no use either. */
heap_t *heap_current(void);

/* Starts the allocator if need be; false when there is no address space for it, and in a stranded process
 * (start/fork.h). */
bool heap_system_ready(void);

/* Registers for fork and for the end of threads with libc, at the first allocation: handlers for fork that others
 * register come later, so theirs run before ours have taken a lock, and after ours have given it back. Holds no lock of
 * an allocation. */
void heap_ensure_hooks(void);
