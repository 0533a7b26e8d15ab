/* SPDX-License-Identifier: MIT */
#include "region/scarce.h"

#include "sys/sys.h"

enum { NEAR_SHARE = 2 };

_Atomic bool hk_scarce_tight;
_Atomic bool hk_scarce_near;

static _Atomic size_t claimed_bytes;
static _Atomic size_t peak_bytes;
static size_t refused_at = SIZE_MAX; /* what would have been claimed; guarded by the region lock */

static void look(size_t claimed) {
    atomic_store_explicit(&claimed_bytes, claimed, memory_order_relaxed);
    if (claimed > atomic_load_explicit(&peak_bytes, memory_order_relaxed))
        atomic_store_explicit(&peak_bytes, claimed, memory_order_relaxed);
    if (claimed > refused_at)
        refused_at = SIZE_MAX;
    bool near = refused_at != SIZE_MAX && claimed >= refused_at / NEAR_SHARE;
    if (near != region_is_near_limit())
        atomic_store_explicit(&hk_scarce_near, near, memory_order_relaxed);
}

void scarce_note(void) { atomic_store_explicit(&hk_scarce_tight, true, memory_order_relaxed); }

void scarce_init(void) {
    if (sys_mappings_are_limited())
        scarce_note();
}

void scarce_claimed(size_t bytes) { look(region_claimed_bytes() + bytes); }

void scarce_released(size_t bytes) { look(region_claimed_bytes() - bytes); }

void scarce_refused(size_t bytes) {
    scarce_note();
    refused_at = region_claimed_bytes() + bytes;
    look(region_claimed_bytes());
}

size_t region_claimed_bytes(void) { return atomic_load_explicit(&claimed_bytes, memory_order_relaxed); }

size_t region_peak_bytes(void) { return atomic_load_explicit(&peak_bytes, memory_order_relaxed); }
