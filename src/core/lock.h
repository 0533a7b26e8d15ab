/* SPDX-License-Identifier: MIT
 *
 * lock.h: a three-state futex lock (0 free, 1 held, 2 held and somebody sleeps), with a rank.
 *
 * Source: U. Drepper, "Futexes Are Tricky", section 6, mutex2.
 *
 * Ranks name the order in which locks nest. The check build holds every thread to it (core/witness.h):
 *
 *   LOCK-1   A thread waits for a lock only while all that it holds have lower ranks. A lock that is free is taken at
 *            once all the same by hk_try_lock, whose caller does without it where it is not.
 *   LOCK-2   Locks of one rank are those of several heaps. A thread holds more than one of them only under that of the
 *            list of heaps.
 *   LOCK-3   Nobody waits for a lock of the rank TRIED, so its holder may wait for any other.
 *   LOCK-4   Who unlocks a lock holds it.
 *
 * `word` is written by any thread; everything a lock guards is named where it is declared. Nothing here uses libc, nor
 * thread-local storage unless a fork is under way, so the helper thread may lock as well.
 */
#pragma once

#include "base/base.h"
#include "core/witness.h"

#include <stdatomic.h>

typedef struct hk_lock {
    _Atomic uint32_t word;
    uint32_t rank; /* hk_rank_t */
} hk_lock_t;

#define HK_LOCK_INIT(r)                                                                                                \
    { 0, (r) }

/* While a thread forks it holds every lock (start/fork.c). Fork handlers that were registered before ours, where the
 * library came late into the process, run meanwhile in that thread, and may allocate: for them the locks are open.
 * Written by the forking thread and by its child; NULL otherwise, so that the helper thread never gets to look at
 * thread-local storage. */
extern const void *_Atomic hk_fork_owner HK_HIDDEN;

/* An address that is this thread's own. A function, so that no compiler reads thread-local storage before it must. */
HK_HIDDEN const void *hk_thread_self(void);

HK_INLINE bool hk_locks_are_open(void) {
    const void *owner = atomic_load_explicit(&hk_fork_owner, memory_order_relaxed);
    return hk_unlikely(owner != NULL) && owner == hk_thread_self();
}

/* Lock statistics, process-wide, relaxed. */
extern _Atomic uint64_t hk_lock_wait_count;

/* True when the calling thread must hold the lock that it has been waiting for for a while. Written once, at the start
 * of the allocator; NULL before. */
extern bool (*hk_lock_doubt)(void);

HK_HIDDEN void hk_lock_wait(hk_lock_t *lock);
HK_HIDDEN void hk_lock_wake(hk_lock_t *lock);

HK_INLINE bool hk_try_lock_here(hk_lock_t *lock) {
    if (hk_locks_are_open())
        return true;
    uint32_t free_word = 0;
    /* Acquire: pairs with the release in hk_unlock; what the last holder wrote is visible. */
    bool got =
        atomic_compare_exchange_strong_explicit(&lock->word, &free_word, 1, memory_order_acquire, memory_order_relaxed);
    if (HK_CHECK && got)
        witness_took(lock->rank);
    return got;
}

/* Takes the lock, unless that takes longer than `ms`: for who may have it already. */
bool hk_lock_within(hk_lock_t *lock, unsigned ms);

/* The forms of the three below for HK_SMALL: calls. Who takes slots and gives them back says `here`. */
HK_HIDDEN void hk_lock_by_call(hk_lock_t *lock);
HK_HIDDEN bool hk_try_lock_by_call(hk_lock_t *lock);
HK_HIDDEN void hk_unlock_by_call(hk_lock_t *lock);

HK_INLINE void hk_lock_here(hk_lock_t *lock) {
    if (HK_CHECK && !hk_locks_are_open())
        witness_waits(lock->rank);
    if (hk_unlikely(!hk_try_lock_here(lock)))
        hk_lock_wait(lock);
}

/* What a function that says `_locked` asserts of its caller: exact but for locks of one rank (LOCK-2), of which it
 * tells that the thread has one, and that somebody has this one. */
HK_INLINE bool hk_lock_is_held(const hk_lock_t *lock) {
    return hk_locks_are_open() ||
           (atomic_load_explicit(&lock->word, memory_order_relaxed) != 0 && witness_holds(lock->rank));
}

HK_INLINE void hk_unlock_here(hk_lock_t *lock) {
    if (hk_locks_are_open())
        return;
    if (HK_CHECK)
        witness_leaves(lock->rank);
    /* Release: pairs with the acquire in hk_try_lock and hk_lock_wait. */
    if (hk_unlikely(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2))
        hk_lock_wake(lock);
}

HK_INLINE void hk_lock(hk_lock_t *lock) { HK_SMALL ? hk_lock_by_call(lock) : hk_lock_here(lock); }
HK_INLINE void hk_unlock(hk_lock_t *lock) { HK_SMALL ? hk_unlock_by_call(lock) : hk_unlock_here(lock); }
HK_INLINE bool hk_try_lock(hk_lock_t *lock) { return HK_SMALL ? hk_try_lock_by_call(lock) : hk_try_lock_here(lock); }
