/* SPDX-License-Identifier: MIT
 *
 * home.h: whose memory this is, and whether a thread of ours is at work in it.
 */
#ifndef HK_HELPER_HOME_H
#define HK_HELPER_HOME_H

#include "base/base.h"

/* The memory is this process's: at the start, and in children. */
void home_settle(void);

/* False in a child of vfork, which shares its parent's memory, and threads of ours with it. */
bool home_is_here(void);

/* A thread of ours begins (1) or ends (-1) to do what takes locks. */
void home_work(int by);

/* Whether one of them may hold a lock. */
bool home_is_at_work(void);

/* Threads of ours do not exist in a child. */
void home_after_fork_in_child(void);

#endif
