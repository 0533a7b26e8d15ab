/* SPDX-License-Identifier: MIT
 *
 * tick.h: the countdown of a heap, and what is due when it runs out: a tick, which is everything periodic of a heap, or
 * a sample (sample/).
 *
 * malloc takes the size of each request off the countdown and leaves for the slow path when it is below 0. It is set to
 * what comes first:
 *
 *   a sample    after as many bytes as were drawn
 *   a tick      when blocks of HEAP_TICK_BYTES were allocated or flushed, where no block counts more than
 *               HEAP_TICK_MID_BYTES. How much that is the counts of the magazines tell; so a thread that uses large
 *               blocks looks there now and then, and no more.
 *
 * TICK-1  Each request is charged once: by front/ up to HK_MAGAZINE_SIZE_MAX, else where its slow path begins. A free
 *         charges nothing.
 *
 * Where it looks, it looks for requests from outside as well (core/request.h), and on the way to a limit for how far
 * that is, when limit_step() bytes came from slabs: their pages may have gone back before.
 */
#pragma once

#include "core/request.h"
#include "heap/heap.h"
#include "limit/limit.h"

/* What is periodic, now. */
void heap_tick(heap_t *h);

extern size_t (*_Atomic hk_tick_verify)(void) HK_HIDDEN; /* NULL until it is set; written and read in any thread */

/* In the check build, now and then a tick calls `who`, which verifies every invariant and returns how many do not hold:
 * the process stops at the first. */
HK_INLINE void heap_verify_by(size_t (*who)(void)) {
    if (HK_CHECK)
        atomic_store_explicit(&hk_tick_verify, who, memory_order_relaxed);
}

/* The countdown ran out, in a request of `size` bytes that has been charged (0: in none). True when its block is to be
 * sampled. */
HK_NOINLINE bool heap_count_out(heap_t *h, size_t size);

/* Does what was asked from outside, looks how far a limit is, and gives back what is free close to it. On slow paths,
 * with no lock held. */
HK_COLD void heap_attend(heap_t *h);

/* On slow paths also when the thread's pace can change: the countdown may be far away then. */
HK_INLINE bool heap_must_count_out(heap_t *h) {
    return hk_unlikely(hk_read(h->front.countdown) < 0) ||
           (sample_is_paced(&h->draw) && sample_must_keep_pace(&h->draw));
}

HK_INLINE void heap_look_around(heap_t *h) {
    if (hk_request_waits() || hk_unlikely(h->refilled_bytes > limit_step()))
        heap_attend(h);
}

HK_INLINE void heap_tick_if_due(heap_t *h) {
    if (heap_must_count_out(h))
        (void)heap_count_out(h, 0);
    heap_look_around(h);
}

/* Charges the request if that is still to be done. True when its block is to be sampled. `h` may be NULL. */
HK_INLINE bool heap_charge(heap_t *h, size_t size, bool charged) {
    if (hk_unlikely(h == NULL))
        return sample_is_due_unowned(size);
    hk_add(h->front.countdown, charged ? 0 : -(int64_t)size);
    heap_look_around(h);
    return heap_must_count_out(h) && heap_count_out(h, size);
}

/* All threads look at their countdowns with their next request: there is another profile to sample for. */
void heap_hurry_all(void);
