/* SPDX-License-Identifier: MIT
 *
 * scarce.h: how much of the window is claimed, and what the kernel has refused.
 *
 *   PLENTY --a limit from the start, or a refusal--> TIGHT, for good
 *   FAR --a refusal, or little room left to what was refused--> AT THE LIMIT
 *   AT THE LIMIT --more room, or more claimed after all--> FAR
 *
 * While TIGHT nothing is claimed ahead, and what is free is unmapped.
 *
 * A refusal is ENOMEM, whatever limit it comes from: RLIMIT_AS, RLIMIT_DATA, what may be locked (mlockall(2)), the
 * number of mappings, strict overcommit. A process AT THE LIMIT is also NEAR it. Under a small limit from the start it
 * is NEAR from an eighth of the limit on, and AT THE LIMIT from half of it on. Size classes share slabs from the first
 * block on then, elsewhere only near a limit: once a small limit is full of slabs with a block or two each, it is too
 * late.
 *
 * Written under the region lock, read by any thread.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

extern _Atomic bool hk_scarce_tight;
extern _Atomic bool hk_scarce_near;
extern _Atomic bool hk_scarce_shared;
extern _Atomic bool hk_scarce_at_limit;

/* At start. */
void scarce_init(void);

/* So much more, or less, is claimed. */
void scarce_claimed(size_t bytes);
void scarce_released(size_t bytes);

/* The kernel has refused so much; or something, which any thread may note. */
void scarce_refused(size_t bytes);
void scarce_note(void);

/* So much is mapped beside them: huge blocks, at any moment. */
void scarce_beside(size_t bytes);

/* Bytes claimed for superslabs; and the most there have ever been, with what was beside them. */
extern _Atomic size_t hk_region_claimed HK_HIDDEN;
HK_INLINE size_t region_claimed_bytes(void) { return atomic_load_explicit(&hk_region_claimed, memory_order_relaxed); }
extern _Atomic size_t hk_region_peak;
HK_INLINE size_t region_peak_bytes(void) { return atomic_load_explicit(&hk_region_peak, memory_order_relaxed); }

/* True when address space is scarce, so that free superslabs are unmapped rather than kept. */
HK_INLINE bool region_is_tight(void) { return atomic_load_explicit(&hk_scarce_tight, memory_order_relaxed); }

/* True when so much is claimed that room must be saved: slabs are shared, little is kept. */
HK_INLINE bool region_is_near_limit(void) { return atomic_load_explicit(&hk_scarce_near, memory_order_relaxed); }

/* True when size classes share slabs, as a slab of each is a large part of what there is. */
HK_INLINE bool region_shares_slabs(void) { return atomic_load_explicit(&hk_scarce_shared, memory_order_relaxed); }

/* True when the kernel would refuse little more than is claimed: what is freed goes back at once. */
HK_INLINE bool region_is_at_limit(void) { return atomic_load_explicit(&hk_scarce_at_limit, memory_order_relaxed); }
