/* SPDX-License-Identifier: MIT */
#include "heap/wake.h"

#include "heap/slot_cache.h"
#include "limit/limit.h"
#include "superslab/superslab.h"

static void (*_Atomic wake)(void); /* NULL until it is set */
_Atomic size_t hk_ended_bytes;

void heap_wake_by(void (*who)(void)) { atomic_store_explicit(&wake, who, memory_order_relaxed); }

void heap_memory_freed_much(void) {
    void (*who)(void) = atomic_load_explicit(&wake, memory_order_relaxed);
    if (hk_likely(who != NULL))
        who();
}

void heap_memory_freed(const heap_t *h) {
    if (superslab_waiting_bytes() + heap_ended_bytes() >= HEAP_WORTH_BYTES ||
        (h != NULL && heap_freed_bytes(h) + slot_cache_bytes(h) >= HEAP_WORTH_BYTES) || limit_is_near())
        heap_memory_freed_much();
}
