/* SPDX-License-Identifier: MIT */
#include "upkeep/life.h"

#include "core/options.h"
#include "core/panic.h"
#include "heap/budget.h"
#include "heap/lease.h"
#include "heap/magazine.h"
#include "heap/quarantine.h"
#include "heap/remote.h"
#include "heap/slot_cache.h"
#include "heap/supply.h"
#include "heap/wake.h"
#include "sys/sys.h"
#include "upkeep/record.h"

enum { PARKED_HEAPS_MAX = 32 };

/* Guarded by hk_heap_list_lock. */
static uint32_t parked_ids;     /* the latest first, */
static uint32_t unused_ids;     /* here too */
static uint32_t recordless_ids; /* unused, and their records given back */
static uint32_t parked_count;
static _Atomic uint32_t orphan_count; /* also read without it */

/* --- Birth and death ---------------------------------------------------------------------------------------------- */

/* Of a heap that has left its list. */
static void take_off_list_locked(heap_t *h, uint32_t life) {
    hk_assert(hk_lock_is_held(&hk_heap_list_lock));
    if (atomic_load_explicit(&h->life, memory_order_relaxed) == HEAP_PARKED)
        parked_count--;
    atomic_fetch_sub_explicit(&hk_ended_bytes, h->ended_with_bytes, memory_order_relaxed);
    atomic_store_explicit(&h->life, life, memory_order_relaxed);
}

static void push_locked(uint32_t *ids, heap_t *h, uint32_t life, size_t bytes) {
    hk_assert(hk_lock_is_held(&hk_heap_list_lock));
    hk_assert(h->front.id >= HK_OWNER_FIRST);
    hk_assert(life == HEAP_PARKED || life == HEAP_UNUSED);
    h->ended_with_bytes = bytes;
    atomic_fetch_add_explicit(&hk_ended_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&h->life, life, memory_order_relaxed);
    h->next_unused = *ids;
    *ids = h->front.id;
}

/* For a thread that starts. */
static heap_t *pop_locked(uint32_t *ids) {
    hk_assert(hk_lock_is_held(&hk_heap_list_lock));
    hk_assert(*ids != 0);
    heap_t *h = heap_by_id(*ids);
    *ids = h->next_unused;
    take_off_list_locked(h, HEAP_LIVE);
    slot_cache_begin(h);
    return h;
}

/* A handler that runs while a fork holds the locks gets a new heap. The fork does not hold those of unused heaps. */
static heap_t *take_locked(void) {
    hk_assert(hk_lock_is_held(&hk_heap_list_lock));
    if (hk_locks_are_open())
        return heap_make_locked();
    uint32_t *lists[] = {&parked_ids, &unused_ids, &recordless_ids};
    for (unsigned i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (*lists[i] != 0)
            return pop_locked(lists[i]);
    return heap_make_locked();
}

heap_t *life_begin(void) {
    hk_lock(&hk_heap_list_lock);
    heap_t *h = take_locked();
    hk_unlock(&hk_heap_list_lock);
    return h;
}

static void make_unused(heap_t *h, uint32_t *ids, size_t bytes) {
    h->ended_since_ms = sys_now_ms();
    hk_lock(&hk_heap_list_lock);
    push_locked(ids, h, HEAP_UNUSED, bytes);
    hk_unlock(&hk_heap_list_lock);
}

/* Empties a heap whose thread is over and makes its id usable again. Any thread that has claimed the heap, and the
 * helper. */
static void heap_retire(heap_t *h) {
    hk_assert(h != heap_shared() && atomic_load_explicit(&h->life, memory_order_relaxed) != HEAP_PARKED);
    if (hardened_is_on())
        quarantine_drain(h);
    lease_end(h);
    magazine_retire_all(h);
    heap_remote_post_last(h);
    heap_lock(h);
    heap_hand_over_locked(h);
    heap_unlock(h);
    make_unused(h, &unused_ids, HEAP_STRIDE);
}

/* Counted anew: a thread that began or ended may have been between its heap and the count. */
void heap_orphan_others(heap_orphans_t which) {
    uint32_t live = 0, orphans = 0;
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++) {
        heap_t *h = heap_by_id(id);
        uint32_t life = atomic_load_explicit(&h->life, memory_order_relaxed);
        bool is_live = life == HEAP_LIVE, is_retiring = life == HEAP_RETIRING;
        bool orphaned = (is_live && (which & HEAP_ORPHANS_LIVE) != 0 && &h->front != hk_front) ||
                        (is_retiring && (which & HEAP_ORPHANS_RETIRING) != 0);
        if (orphaned)
            atomic_store_explicit(&h->life, HEAP_ORPHAN, memory_order_relaxed);
        orphans += orphaned || life == HEAP_ORPHAN;
        live += is_live && !orphaned;
    }
    atomic_store_explicit(&orphan_count, orphans, memory_order_relaxed);
    budget_set_threads(live + orphans);
}

static heap_t *claim_orphan(void) {
    heap_t *found = NULL;
    hk_lock(&hk_heap_list_lock);
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit() && found == NULL; id++) {
        heap_t *h = heap_by_id(id);
        if (atomic_load_explicit(&h->life, memory_order_relaxed) == HEAP_ORPHAN)
            found = h;
    }
    if (found != NULL) {
        atomic_store_explicit(&found->life, HEAP_RETIRING, memory_order_relaxed);
        atomic_fetch_sub_explicit(&orphan_count, 1, memory_order_relaxed);
    }
    hk_unlock(&hk_heap_list_lock);
    return found;
}

void heap_adopt_orphan(void) {
    if (hk_likely(atomic_load_explicit(&orphan_count, memory_order_relaxed) == 0))
        return;
    heap_t *orphan = claim_orphan();
    if (orphan == NULL)
        return;
    heap_retire_gone(orphan);
    heap_memory_freed(NULL);
}

/* The thread may have ended between two steps: by exit(2) in a signal handler. */
void heap_retire_gone(heap_t *h) {
    magazine_mend(h);
    heap_retire(h);
    budget_thread_left();
}

bool heap_claim_gone(heap_t *h, bool (*is_gone)(const heap_t *)) {
    hk_lock(&hk_heap_list_lock);
    bool claimed = atomic_load_explicit(&h->life, memory_order_relaxed) == HEAP_LIVE && is_gone(h);
    if (claimed) {
        atomic_store_explicit(&h->life, HEAP_RETIRING, memory_order_relaxed);
    }
    hk_unlock(&hk_heap_list_lock);
    return claimed;
}

/* --- Park --------------------------------------------------------------------------------------------------------- */

static size_t slots_of(const heap_t *h) { return atomic_load_explicit(&h->slot_count, memory_order_relaxed); }

/* A heap whose thread is over is parked as it is, with its magazines and slabs, for the next thread: threads that come
 * and go are mostly alike. Whoever looks after sleeping heaps sees one more of them. */
static bool may_park(void) {
    return hk_option(HK_OPT_PURGE_DELAY) > 0 && !hardened_is_on() && !heap_is_oversubscribed() && !sys_purge_refused();
}

/* False when as many are parked as there may be threads at ease, or more than a few. */
static bool park_locked(heap_t *h) {
    h->ended_since_ms = sys_now_ms();
    hk_lock(&hk_heap_list_lock);
    bool fits = parked_count < hk_min(PARKED_HEAPS_MAX, heap_threads_at_ease());
    if (fits) {
        parked_count++;
        push_locked(&parked_ids, h, HEAP_PARKED, slots_of(h) * HK_SLOT_SIZE + h->magazine_bytes);
    }
    hk_unlock(&hk_heap_list_lock);
    return fits;
}

static bool park(heap_t *h) {
    if (!may_park())
        return false;
    lease_end(h);
    magazine_drop_large(h);
    slot_cache_give_back(h);
    heap_remote_post_last(h);
    return park_locked(h);
}

void life_end(heap_t *h) {
    if (!park(h))
        heap_retire(h);
    budget_thread_left();
}

/* Takes those that have been on the list since `until_ms` or longer off it, for the caller alone, who acts on each. */
static void for_each_since(uint32_t *ids, uint64_t until_ms, void (*act)(heap_t *h)) {
    hk_lock(&hk_heap_list_lock);
    while (*ids != 0 && heap_by_id(*ids)->ended_since_ms > until_ms)
        ids = &heap_by_id(*ids)->next_unused;
    uint32_t first = *ids;
    *ids = 0;
    for (uint32_t id = first; id != 0; id = heap_by_id(id)->next_unused)
        take_off_list_locked(heap_by_id(id), HEAP_RETIRING);
    hk_unlock(&hk_heap_list_lock);
    while (first != 0) {
        heap_t *h = heap_by_id(first);
        first = h->next_unused;
        act(h);
    }
}

static void give_record_back(heap_t *h) {
    magazine_drop_all(h);
    heap_record_give_back(h);
    make_unused(h, &recordless_ids, 0);
}

void heap_retire_parked(uint64_t until_ms) { for_each_since(&parked_ids, until_ms, heap_retire); }

void heap_give_back_records(uint64_t until_ms) { for_each_since(&unused_ids, until_ms, give_record_back); }

size_t heap_live_count(void) {
    size_t count = 0;
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++)
        count += atomic_load_explicit(&heap_by_id(id)->life, memory_order_relaxed) == HEAP_LIVE;
    return count;
}
