/* SPDX-License-Identifier: MIT
 *
 * wake.h: memory became free. The free says so here; once there is something worth giving back, upkeep is
 * called.
 *
 * The call goes up, to a room that this one does not know (helper/helper.h): by a callback, which the start of the
 * allocator sets.
 */
#pragma once

#include "heap/heap.h"

enum { HEAP_WORTH_BYTES = 1 << 20 }; /* less than this is not worth a helper thread */

/* From now on `who` is called, with no lock of an allocation held. */
void heap_wake_by(void (*who)(void));

/* After memory became free in `h` (NULL: somewhere). */
void heap_memory_freed(const heap_t *h);

/* After a run became free, which goes back by itself where nothing is to wait. `kept`: slot_cache_free. */
void heap_run_freed(const heap_t *h, size_t kept);

/* After so much memory became free that the helper is worth its start. */
void heap_memory_freed_much(void);

/* What heaps without a thread may hold: slabs and magazines of parked ones, records of the unused. */
extern _Atomic size_t hk_ended_bytes HK_HIDDEN;
HK_INLINE size_t heap_ended_bytes(void) { return atomic_load_explicit(&hk_ended_bytes, memory_order_relaxed); }

/* Since the helper was last called for what went to other heaps. */
HK_INLINE bool heap_posted_much(heap_t *h) {
    bool much = h->posted_bytes >= HEAP_WORTH_BYTES;
    h->posted_bytes = much ? 0 : h->posted_bytes;
    return much;
}
