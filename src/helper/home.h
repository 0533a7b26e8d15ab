/* SPDX-License-Identifier: MIT
 *
 * home.h: whose memory this is, and whether a thread of ours is at work in it.
 */
#pragma once

#include "base/base.h"

/* The memory is this process's: at the start, and in children that know that they are. */
void home_settle(void);

/* False in a child of vfork, which shares its parent's memory, and threads of ours with it. */
bool home_is_here(void);

/* Where home is not here: true when the memory is this process's all the same, which is home from now on. Such is a
 * child that was made without fork handlers by a process that had no thread of ours yet, so that no word was wiped. */
bool home_moves_here(void);

/* Whether the process is a child that was made without fork handlers. One of clone(2) ends with exit(2) of its only
 * thread, where threads of ours keep it until they look (sys_helper_end_if_last). So the helper looks soon there, and
 * others, which sleep for long, do not start. */
void home_set_unseen(bool unseen);
bool home_is_unseen(void);

/* A thread of ours begins (1) or ends (-1) to do what takes locks. */
void home_work(int by);

/* Whether one of them may hold a lock. */
bool home_is_at_work(void);

/* Threads of ours do not exist in a child. */
void home_after_fork_in_child(void);
