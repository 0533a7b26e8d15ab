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

/* `kept` bytes of slots are in a heap's cache. What one thread keeps, others may keep as well: together it is worth a
 * helper. */
static void freed(const heap_t *h, size_t kept) {
    const size_t in_heaps = (h != NULL ? heap_freed_bytes(h) : 0) + kept * budget_threads();
    if (superslab_waiting_bytes() + heap_ended_bytes() + in_heaps >= HEAP_WORTH_BYTES || limit_is_near())
        heap_memory_freed_much();
}

void heap_memory_freed(const heap_t *h) { freed(h, h != NULL ? slot_cache_bytes(h) : 0); }

void heap_run_freed(const heap_t *h, size_t kept) {
    if (hk_option(HK_OPT_PURGE_DELAY) == 0)
        heap_memory_freed_much();
    else
        freed(h, kept);
}
