/* SPDX-License-Identifier: MIT
 *
 * witness.h: the order of locks (LOCK-1 to LOCK-4 of core/lock.h), watched in the check build: the first thread that
 * breaks it stops the process, whether or not anybody waits for it.
 *
 * Each thread counts the locks that it holds, by rank. The counts are its own: in thread-local storage, or where a
 * thread of ours has its own memory (sys_helper_own). The child of a fork inherits those of the thread that forks, with
 * the locks.
 *
 * A signal handler that has interrupted malloc or free is taken for the frame that it has interrupted. It may fork,
 * which waits for no lock that another does not hold (start/fork.h); when it calls malloc it breaks the order, and the
 * message says so.
 */
#pragma once

#include "base/base.h"

/* From the first that a thread takes to the last. */
#define HK_RANKS(X)                                                                                                    \
    X(INIT, "the start of the allocator")                                                                              \
    X(HELPER, "start and stop of the helper thread")                                                                   \
    X(HEAP_LIST, "the list of heaps")                                                                                  \
    X(RECORD, "the counts of all heaps")                                                                               \
    X(HEAP, "a thread's heap")                                                                                         \
    X(SHARED_HEAP, "the heap of slabs without a thread")                                                               \
    X(HUGE, "the registry of huge blocks")                                                                             \
    X(SUPERSLAB, "the slot pool")                                                                                      \
    X(REGION, "address space")                                                                                         \
    X(META, "memory for our own records")                                                                              \
    X(SAMPLE, "the tables of the heap profile")                                                                        \
    X(TRIED, "what is only tried")

#define HK_RANK_ENUM(name, what) HK_RANK_##name,
typedef enum hk_rank { HK_RANKS(HK_RANK_ENUM) HK_RANK_COUNT } hk_rank_t;
#undef HK_RANK_ENUM

/* Before a wait for a lock of this rank (hk_rank_t), after it was taken, before it is given back. */
void witness_waits(uint32_t rank);
void witness_took(uint32_t rank);
void witness_leaves(uint32_t rank);

/* The frames of the calling thread that hold locks never go on: a signal handler has interrupted them, and exits. */
void witness_forget(void);

/* Whether the calling thread holds a lock of this rank; always true of what is not watched. */
bool witness_holds(uint32_t rank);
