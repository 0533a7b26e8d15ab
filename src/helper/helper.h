/* SPDX-License-Identifier: MIT
 *
 * helper.h: the thread that gives memory back, and when there must be none.
 *
 * The helper exists only while there is memory to give back: whoever frees memory starts it when enough is dirty, and
 * it leaves after some rounds without work (upkeep/round.h). It starts and stops under a lock of its own, which a fork
 * holds too.
 */
#pragma once

#include "base/base.h"

/* At the start of the allocator. */
void helper_init(void);

/* There is something worth giving back: starts the helper, or does its work where there can be none. No lock is
 * held. */
void helper_wake(void);

/* Starts the watcher of memory pressure, and the thread that takes orders, if they are wanted and not there. No lock is
 * held. */
void helper_watch(void);

/* Between the two the process has no thread that the program did not start. Called without locks; cheap when there is
 * none. */
void hk_threads_pause(void);
void hk_threads_resume(void);

/* The helper leaves, and none starts until after the fork; signals are held back so long. True when no thread of ours
 * holds a lock, nor takes one until then: the helper is gone, the others keep out of it (door.h). */
bool helper_before_fork(void);

/* Gives freed memory back where a helper would have. No lock is held. */
void helper_alone_before_fork(void);

void helper_after_fork(bool in_child, bool alone);

/* In a child that was made without fork handlers; by a thread that holds back signals, or not. */
void helper_after_unseen_fork(bool holds_signals);

/* Threads of ours in this process. */
unsigned helper_threads(void);

/* Besides them there is the caller alone; false when that cannot be known. */
bool helper_program_has_one_thread(void);

/* Between helper_before_fork and helper_after_fork, for the thread that forks. */
bool helper_is_forking(void);
