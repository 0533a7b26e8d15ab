/* SPDX-License-Identifier: MIT */
#include "region/scarce.h"

#include "core/events.h"
#include "core/panic.h"
#include "sys/sys.h"

enum { ROOM_SHARE = 8, SMALL_SHARE = 8 };
#define ROOM_MIN    (16 * HK_MIB)  /* a thread's stack, and one more */
#define SMALL_LIMIT (128 * HK_MIB) /* a slab of each size in a few threads is a large part of it */

_Atomic bool hk_scarce_tight;
_Atomic bool hk_scarce_near;
_Atomic bool hk_scarce_shared;
_Atomic bool hk_scarce_at_limit;

_Atomic size_t hk_region_claimed;
static _Atomic size_t beside_bytes;
_Atomic size_t hk_region_peak;
static size_t small_from =
    SIZE_MAX; /* of a small limit, from here on all is near it; constant after scarce_init, as the next */
static size_t small_half = SIZE_MAX; /* ... and from here on at it */
static size_t refused_at = SIZE_MAX; /* what would have been claimed; guarded by the region lock */

static void note(_Atomic bool *what, bool now) {
    if (now != atomic_load_explicit(what, memory_order_relaxed))
        atomic_store_explicit(what, now, memory_order_relaxed);
}

/* Under the region lock, and the lock of huge blocks: of two peaks of one moment the lower one may stay. */
static void note_peak(void) {
    size_t now = region_claimed_bytes() + atomic_load_explicit(&beside_bytes, memory_order_relaxed);
    if (now > region_peak_bytes())
        atomic_store_explicit(&hk_region_peak, now, memory_order_relaxed);
}

void scarce_beside(size_t bytes) {
    atomic_store_explicit(&beside_bytes, bytes, memory_order_relaxed);
    note_peak();
}

static void look(size_t claimed) {
    atomic_store_explicit(&hk_region_claimed, claimed, memory_order_relaxed);
    note_peak();
    if (claimed > refused_at)
        refused_at = SIZE_MAX;
    bool no_room = refused_at != SIZE_MAX && refused_at - claimed < hk_max(refused_at / ROOM_SHARE, ROOM_MIN);
    bool at_limit = no_room || claimed >= small_half;
    note(&hk_scarce_at_limit, at_limit);
    note(&hk_scarce_near, at_limit || claimed >= small_from);
    note(&hk_scarce_shared, at_limit || small_from != SIZE_MAX);
}

void scarce_note(void) { atomic_store_explicit(&hk_scarce_tight, true, memory_order_relaxed); }

void scarce_init(void) {
    size_t limit = sys_mapping_limit();
    if (limit == SIZE_MAX)
        return;
    scarce_note();
    if (limit > SMALL_LIMIT)
        return;
    small_from = limit / SMALL_SHARE;
    small_half = limit / 2;
    note(&hk_scarce_shared, true);
}

void scarce_claimed(size_t bytes) {
    look(region_claimed_bytes() + bytes);
    event_map(bytes);
}

void scarce_released(size_t bytes) {
    hk_assert(bytes <= region_claimed_bytes());
    look(region_claimed_bytes() - bytes);
}

void scarce_refused(size_t bytes) {
    scarce_note();
    refused_at = region_claimed_bytes() + bytes;
    look(region_claimed_bytes());
}
