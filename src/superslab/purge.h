/* SPDX-License-Identifier: MIT
 *
 * purge.h: dirty slots go back to the kernel.
 */
#pragma once

#include "superslab/pool.h"

/* Gives the pages of at most `slot_count` dirty slots back to the kernel, all of a superslab at once, those first that
 * have waited longest; clean empty superslabs beyond a few go back to the region. Returns the bytes given back. */
size_t superslab_purge(size_t slot_count);

/* The slots that memory has grown by since the last call, because nothing resident could serve. */
size_t superslab_grown(void);

/* While memory grows: gives so many slots back before their delay is over, as far as superslab/haste.h allows. Returns
 * the bytes. */
size_t superslab_purge_in_haste(size_t slot_count);

/* Dirty memory that purging leaves alone (warm-up). */
void superslab_set_floor(size_t bytes);

/* A limit is near: then all that lies dirty pays for growth. Written by the thread that looks (limit/limit.c), read by
 * all. Relaxed: a hint, on which no other memory depends. */
extern _Atomic bool hk_limit_near;

/* In the child of a fork: slots that were on their way to the kernel come back. */
void superslab_after_fork(void);

/* Threads that hold slots, or blocks of slabs: these do not lie in the pool or in their slab, but will soon, as their
 * pages are on their way to the kernel and back. Held before the lock is let go under which they were taken, and until
 * they are back: so who found none of them sees that somebody holds some. */
extern _Atomic uint32_t hk_slots_holders;

/* Under such a lock, or before any was taken. Relaxed: the lock orders it. */
HK_INLINE void superslab_hold(void) { atomic_fetch_add_explicit(&hk_slots_holders, 1, memory_order_relaxed); }
void superslab_let_go(void);

/* Waits a little while somebody holds slots or blocks. False when nobody does. */
bool superslab_wait_for_held(void);

/* Dirty bytes, and those of them that purging does not leave alone; without a lock. */
HK_INLINE size_t superslab_dirty_bytes(void) { return pool_count(&hk_pool.dirty) << HK_SLOT_SHIFT; }
size_t superslab_waiting_bytes(void);

/* Bytes of slots that are taken or dirty, but not those on their way to the kernel; without a lock. */
size_t superslab_taken_bytes(void);

/* Whether so few slots are free that a superslab may have to be opened for so many; without a lock. */
HK_INLINE bool superslab_may_open_for(size_t slot_count) { return pool_count(&hk_pool.free) < 2 * slot_count; }

/* Slots that are taken. */
size_t superslab_used_slots(void);

/* Memory has grown by `slot_count` slots that nothing resident could serve. Without the lock. */
void pool_purge_for_growth(size_t slot_count);
