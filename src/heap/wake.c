/* SPDX-License-Identifier: MIT */
#include "heap/wake.h"

#include "core/options.h"
#include "heap/budget.h"
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

/* What one thread keeps, others may keep as well: together it is worth a helper. */
static size_t kept_bytes(const heap_t *h) { return heap_freed_bytes(h) + slot_cache_bytes(h) * budget_threads(); }

void heap_memory_freed(const heap_t *h) {
    const size_t kept = h != NULL ? kept_bytes(h) : 0;
    if (superslab_waiting_bytes() + heap_ended_bytes() + kept >= HEAP_WORTH_BYTES || limit_is_near())
        heap_memory_freed_much();
}

void heap_run_freed(const heap_t *h) {
    if (hk_option(HK_OPT_PURGE_DELAY) == 0)
        heap_memory_freed_much();
    else
        heap_memory_freed(h);
}
