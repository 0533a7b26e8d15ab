/* SPDX-License-Identifier: MIT */
#include "slow/tick.h"

#include "base/bits.h"
#include "core/lock.h"
#include "core/panic.h"
#include "heap/magazine.h"
#include "heap/remote.h"
#include "heap/wake.h"
#include "helper/helper.h"
#include "start/fork.h"
#include "upkeep/round.h"
#include "watch/guard.h"

enum {
    SPREAD_MAX = 512,  /* bytes charged for each byte that counts, at the most that is reckoned with */
    NEAR_SHARE = 16,   /* a tick comes earlier by this part */
    VERIFY_TICKS = 16, /* in the check build, of all threads: 64 MiB of allocations */
};

size_t (*_Atomic hk_tick_verify)(void);
static _Atomic uint32_t tick_count;

/* No lock is held. Relaxed: which thread does it does not matter, and the walkers take the locks of what they read. */
static void verify_now_and_then(void) {
    size_t (*who)(void) = atomic_load_explicit(&hk_tick_verify, memory_order_relaxed);
    if (who == NULL || atomic_fetch_add_explicit(&tick_count, 1, memory_order_relaxed) % VERIFY_TICKS != 0)
        return;
    size_t violations = who();
    hk_assert(violations == 0);
}

void heap_tick(heap_t *h) {
    h->tick_charged = h->tick_flushed = 0;
    if (!fork_attend())
        return;
    magazine_tick(h);
    if (h->remote_pending_bytes > 0)
        heap_remote_post_all(h);
    heap_lock(h);
    heap_drain_locked(h);
    heap_unlock(h);
    heap_memory_freed(h);
    helper_watch();
    if (HK_CHECK)
        verify_now_and_then();
}

/* A fork handler that allocates holds every lock. Magazines stay: they are few near a limit, and without them the next
 * request would need memory. */
void heap_attend(heap_t *h) {
    h->refilled_bytes = 0;
    if (hk_locks_are_open() || !fork_attend())
        return;
    hk_request_attend(HK_REQUEST_BY_THREAD);
    heap_tick(h);
    if (limit_wants_relief())
        (void)heap_trim();
}

/* What counts of the bytes charged since the last tick. Hardened heaps have no magazines, and take the slow path
 * anyway. */
static uint64_t counted_bytes(const heap_t *h) {
    uint64_t sum = 0;
    if (hardened_is_on())
        return h->tick_charged;
    for (unsigned word = 0; word < sizeof h->magazines_in_use / sizeof h->magazines_in_use[0]; word++)
        for (uint64_t bits = h->magazines_in_use[word]; bits != 0; bits &= bits - 1) {
            unsigned cls = word * 64 + hk_ctz64(bits);
            uint64_t pops = heap_pops(h, cls, heap_magazine_count(h, cls)) - h->class_stats[cls].seen_pops;
            sum += pops * hk_min(hk_class_info[cls].block_size, HEAP_TICK_MID_BYTES);
        }
    return hk_min(sum, h->tick_charged);
}

/* Bytes that may be charged before a tick can be due, about; 0: it is. No more than were charged since the last one: so
 * much is known of the thread, which may use other sizes from now on. Reads the magazines, a line of the cache for each
 * two: not for a look that is due to a sample. */
static int64_t bytes_to_tick(const heap_t *h) {
    uint64_t counted = counted_bytes(h), sum = counted + h->tick_flushed;
    if (sum >= HEAP_TICK_BYTES - HEAP_TICK_BYTES / NEAR_SHARE)
        return 0;
    const uint64_t spread = hk_max(hk_min(h->tick_charged / hk_max(counted, 1), SPREAD_MAX), 1);
    return (int64_t)hk_min((HEAP_TICK_BYTES - sum) * spread, hk_max(h->tick_charged, HEAP_TICK_BYTES));
}

static void countdown_set(heap_t *h, int64_t bytes) {
    hk_assert(bytes >= 0);
    bool in_run = h->streak_countdown == hk_read(h->front.countdown);
    h->countdown_set = bytes;
    hk_write(h->front.countdown, bytes);
    if (in_run)
        h->streak_countdown = bytes;
}

/* No lock is held, but in a fork handler that allocates. */
static void follow_tracer(void) {
    if (!hk_locks_are_open() && sample_follow_tracer())
        heap_hurry_all();
}

/* Of all bytes that were charged; returns how many the next guarded block is away. */
static int64_t count_guard(heap_t *h, uint64_t charged) {
    if (hk_likely(guard_interval() == 0))
        return INT64_MAX;
    if (h->guard_random == 0)
        h->guard_left = guard_distance(&h->guard_random);
    h->guard_left -= (int64_t)charged;
    if (h->guard_left <= 0) {
        h->guard_due = true;
        h->guard_left = guard_distance(&h->guard_random);
    }
    return h->guard_left;
}

/* What was charged is worth a look at how much of it counts. */
static void look_for_tick(heap_t *h) {
    h->tick_left = bytes_to_tick(h);
    if (h->tick_left > 0)
        return;
    h->tick_left = HEAP_TICK_BYTES;
    countdown_set(h, h->tick_left); /* not below 0 in the tick */
    heap_tick(h);
}

bool heap_count_out(heap_t *h, size_t size) {
    if (sample_tracer_has_changed())
        follow_tracer();
    /* Below 0 where heap_hurry_all has written back what it read before the countdown was set anew. */
    const int64_t passed = h->countdown_set - heap_countdown(h);
    const uint64_t charged = passed > 0 ? (uint64_t)passed : 0;
    const bool due = sample_is_due(&h->draw, charged, size);
    if (!due && sample_is_paced(&h->draw))
        sample_keep_pace(&h->draw, (uint32_t)sys_now_us());
    h->tick_charged += charged;
    h->tick_left -= (int64_t)charged;
    const int64_t to_guard = count_guard(h, charged);
    if (h->tick_left <= 0)
        look_for_tick(h);
    const int64_t to_sample = sample_bytes_left(&h->draw);
    const int64_t next = to_sample < h->tick_left ? to_sample : h->tick_left;
    countdown_set(h, to_guard < next ? to_guard : next);
    return due;
}

/* Relaxed, and against the owner's own stores: one of both may get lost, and then the thread looks when its countdown
 * runs out. */
void heap_hurry_all(void) {
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++) {
        heap_t *h = heap_by_id(id);
        const int64_t left = hk_read(h->front.countdown);
        if (left >= 0)
            hk_write(h->front.countdown, left - HEAP_HURRY);
    }
}
