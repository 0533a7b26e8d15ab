/* SPDX-License-Identifier: MIT
 *
 * fork.h: what holds at a fork.
 *
 * A child has one thread: the one that made it. Whatever another thread was at stays half done there, and a lock that
 * it held stays taken. The ways to make a child, and what is done about it:
 *
 *   fork                        Handlers (pthread_atfork). They are registered at the first allocation, so those of the
 *                               program run first: they may allocate, wait for other threads, and join them. Then our
 *                               threads leave, and all locks are taken in the order of ranks. The child finds whole
 *                               data. The heaps of other threads are orphans there, which refills adopt one by one.
 *   fork, alone                 No other thread of the program is left, so no lock is taken. What was freed goes back
 *                               first.
 *   fork in a signal handler    As fork, alone. If the handler has interrupted malloc or free, that frame holds its
 *   of a program of one thread  locks in the child too, or has left a magazine between two steps: the child is stranded
 *                               until the frame goes on there.
 *   _Fork, clone                No handlers. The child finds out at its first slow path, by a word that the kernel
 *                               wipes in children (sys_process_mark). Our threads do not exist there. If one of them
 *                               held a lock, the child is stranded. Where there was none of them yet, no word was
 *                               wiped, and the child finds out when it wants the helper (helper/home.h).
 *   vfork                       The memory is the parent's. The child starts no thread of ours.
 *
 * What holds at each point of a fork with handlers, for the thread that forks:
 *
 *   fork_prepare begins     The program's handlers are over, but for those that were registered before ours. No lock is
 *                           held.
 *   helper_before_fork      Signals are held back. The lock of the helper's start and stop is held, so the helper is
 *                           gone, none starts, and the other threads of ours hold no lock.
 *   lock_all                Not alone: every other lock is held too, but those of heaps that are nobody's, so whatever
 *                           they guard is whole. For this thread the locks are open (hk_fork_owner): what libc and late
 *                           handlers allocate until the end waits for none.
 *   the system call         The child's memory is as it was here. Its mark is NEW, wiped by the kernel.
 *   fork_in_parent          The locks are given back in the reverse order; then the helper may start; then signals come
 *                           in.
 *   fork_in_child           Heaps of threads that are gone become orphans, before anybody can look for one. Then as in
 *                           the parent. The mark becomes KNOWN, or STRANDED when a frame below is still at work.
 *
 * A stranded process is cut off from its heap: it allocates from an emergency arena (start/emergency.h), and what it
 * frees of the heap is lost. It never waits for a lock that nobody gives back. Once all locks are free and the frame
 * has gone on, it returns to its heap.
 *
 * The mark is KNOWN in a process that has been looked at. A thread looks at it at each slow path, before it waits for
 * any lock.
 *
 *   NEW --first slow path--> ATTENDED --all is whole----> KNOWN
 *                            ATTENDED --something is not-> STRANDED --all is whole--> KNOWN
 *   KNOWN --child of a signal handler, something is not whole--> STRANDED
 */
#pragma once

#include "base/base.h"
#include "core/lock.h"
#include "sys/sys.h"

/* The handlers. */
void fork_prepare(void);
void fork_in_parent(void);
void fork_in_child(void);

/* At exit, in a signal handler: a lock that a frame of this thread which the handler has interrupted holds, the first
 * in the order of ranks from those of heaps on; NULL: none. Takes a moment for one. The allocator has started. */
const hk_lock_t *fork_stuck_lock(void);

/* Gives a thread that was stranded its heap again. */
void fork_return(void);

bool fork_attend_slow(void);

/* False in a stranded process: nobody may wait for a lock. Called by a thread that holds none. */
HK_INLINE bool fork_attend(void) { return hk_likely(sys_process_mark() == SYS_MARK_KNOWN) || fork_attend_slow(); }
