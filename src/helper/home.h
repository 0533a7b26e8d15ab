/* SPDX-License-Identifier: MIT
 *
 * home.h: whose memory this is, and whether a thread of ours is at work in it.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

/* Threads of ours that may hold a lock. */
extern _Atomic uint32_t hk_home_work HK_HIDDEN;

/* Relaxed: written before its first look by the thread that looks, or under the door. */
extern _Atomic bool hk_home_is_unseen HK_HIDDEN;

/* The memory is this process's: at the start, and in children that know that they are. */
void home_settle(void);

/* False in a child of vfork, which shares its parent's memory, and threads of ours with it; and in a confined process,
 * which may not ask. */
bool home_is_here(void);

/* Where home is not here: true when the memory is this process's all the same, which is home from now on. Such is a
 * child that was made without fork handlers by a process that had no thread of ours yet, so that no word was wiped. */
bool home_moves_here(void);

/* Whether the process is a child that was made without fork handlers. One of clone(2) ends with exit(2) of its only
 * thread, where threads of ours keep it until they look (sys_helper_end_if_last). So the helper looks soon there, and
 * others, which sleep for long, do not start. */
HK_INLINE void home_set_unseen(bool unseen) { atomic_store_explicit(&hk_home_is_unseen, unseen, memory_order_relaxed); }
HK_INLINE bool home_is_unseen(void) { return atomic_load_explicit(&hk_home_is_unseen, memory_order_relaxed); }

/* A thread of ours begins (1) or ends (-1) to do what takes locks. Release: pairs with the acquire below; who finds
 * nobody at work finds the locks as they left them. */
HK_INLINE void home_work(int by) { atomic_fetch_add_explicit(&hk_home_work, (uint32_t)by, memory_order_release); }

/* Whether one of them may hold a lock. */
HK_INLINE bool home_is_at_work(void) { return atomic_load_explicit(&hk_home_work, memory_order_acquire) != 0; }

/* Threads of ours do not exist in a child. */
HK_INLINE void home_after_fork_in_child(void) { atomic_store_explicit(&hk_home_work, 0, memory_order_relaxed); }
