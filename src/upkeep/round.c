/* SPDX-License-Identifier: MIT */
#include "upkeep/round.h"

#include "core/options.h"
#include "core/panic.h"
#include "heap/lists.h"
#include "heap/messages.h"
#include "heap/slot_cache.h"
#include "heap/wake.h"
#include "limit/limit.h"
#include "superslab/superslab.h"
#include "sys/sys.h"
#include "upkeep/life.h"
#include "upkeep/low_water.h"
#include "upkeep/sparse.h"
#include "upkeep/unnoticed.h"

enum {
    HOLES_SHARE = 4,  /* when this part of the heap waits in slabs in use, it is given back */
    HOLES_HASTE = 4,  /* ... after this part of the delay */
    GROWTH_HASTE = 8, /* while memory grows, holes go back after this part of it; so do slots of a phase that is over */
    PARKED_SHARE = 2, /* heaps without a thread stay parked for this part of the delay */
};

/* Only tried: held by who is in a round. A heap that is retired meanwhile is nobody's. */
static hk_lock_t round_lock = HK_LOCK_INIT(HK_RANK_TRIED);
static low_water_t dirty_low; /* guarded by round_lock */
static bool holes_are_many;   /* as the last round found: guarded by round_lock */
static uint64_t balanced_ms;  /* when a round last found no more slots free than in use; likewise */

uint64_t upkeep_delay_ms(void) {
    if (hk_unlikely(limit_is_near()))
        return 0;
    int64_t delay = hk_option(HK_OPT_PURGE_DELAY);
    return delay < 0 ? UINT64_MAX : (uint64_t)delay;
}

/* The helper has been told of what was freed. */
static void forget_freed_locked(heap_t *h) {
    hk_assert(hk_lock_is_held(&h->lock));
    if (heap_freed_bytes(h) == 0)
        return;
    atomic_store_explicit(&h->freed_bytes, 0, memory_order_relaxed);
    for (unsigned cls = 0; cls < HK_MAGAZINE_COUNT; cls++)
        h->class_stats[cls].freed_blocks = 0;
}

/* Tidies a heap: its free slots always, its slabs when the thread did not come behind its magazines since the last
 * round. */
static void tidy_heap(heap_t *h, bool force) {
    slot_cache_give_back(h);
    if (!hk_try_lock(&h->lock))
        return;
    forget_freed_locked(h);
    if (force || h->lock_takes == h->seen_takes) {
        heap_drain_locked(h);
        if (atomic_load_explicit(&h->slot_count, memory_order_relaxed) > 0)
            heap_close_spares_locked(h);
    }
    h->seen_takes = h->lock_takes;
    hk_unlock(&h->lock);
}

/* The shared heap comes last: heaps without a thread pass on to it what still comes to them. */
static void tidy_all(bool force) {
    for (uint32_t id = HK_OWNER_EXPLICIT; id < heap_explicit_limit(); id++)
        if (atomic_load_explicit(&heap_by_id(id)->life, memory_order_relaxed) == HEAP_EXPLICIT)
            tidy_heap(heap_by_id(id), force);
    for (uint32_t id = heap_limit(); id-- > HK_OWNER_SHARED;)
        tidy_heap(heap_by_id(id), force);
}

/* While memory grows, holes are worth what other haste is. */
static sparse_result_t purge_holes(uint64_t now_ms, uint64_t age_ms, bool grows) {
    bool haste = grows && superslab_may_haste();
    sparse_result_t result = sparse_round_within(now_ms, age_ms,
                                                 haste            ? GROWTH_HASTE
                                                 : holes_are_many ? HOLES_HASTE
                                                                  : 1);
    if (haste)
        superslab_went_in_haste(result.purged_bytes);
    if (result.looked_at_bytes > 0)
        holes_are_many = result.waiting_bytes * HOLES_SHARE >= result.looked_at_bytes;
    return result;
}

/* How many of the slots that nobody needed in this round go in haste. */
static size_t wanted_locked(size_t unneeded, bool grows, uint64_t now_ms, uint64_t age_ms) {
    size_t wanted = haste_wants(unneeded, superslab_used_slots(), grows);
    if (wanted == 0)
        balanced_ms = now_ms;
    return grows || now_ms - balanced_ms >= age_ms / GROWTH_HASTE ? wanted : 0;
}

bool upkeep_round(void) {
    uint64_t now = sys_now_ms();
    limit_follow();
    uint64_t age = upkeep_delay_ms();
    if (age == UINT64_MAX || !hk_try_lock(&round_lock))
        return false;
    uint64_t until = now - hk_min(now, age / PARKED_SHARE);
    unnoticed_end_gone();
    heap_retire_parked(until);
    heap_give_back_records(until);
    bool grows = superslab_grown() > 0;
    tidy_all(false);
    sparse_result_t sparse = purge_holes(now, age, grows);
    size_t least = superslab_dirty_low(), level = superslab_dirty_bytes() >> HK_SLOT_SHIFT;
    size_t slots = low_water_note(&dirty_low, least, level, now, age);
    (void)superslab_purge(age == 0 ? SIZE_MAX : slots);
    (void)superslab_purge_in_haste(wanted_locked(least - hk_min(least, slots), grows, now, age));
    hk_unlock(&round_lock);
    return superslab_waiting_bytes() + sparse.waiting_bytes + heap_ended_bytes() + slot_caches_bytes() >=
           HEAP_WORTH_BYTES;
}

bool upkeep_waits(void) {
    if (upkeep_delay_ms() == UINT64_MAX || sys_purge_refused())
        return false;
    if (superslab_waiting_bytes() + heap_ended_bytes() + slot_caches_bytes() >= HEAP_WORTH_BYTES)
        return true;
    for (uint32_t id = HK_OWNER_SHARED; id < heap_limit(); id++)
        if (heap_freed_bytes(heap_by_id(id)) >= HEAP_WORTH_BYTES)
            return true;
    return false;
}

size_t heap_relieve(void) {
    unnoticed_end_gone();
    heap_retire_parked(UINT64_MAX);
    heap_give_back_records(UINT64_MAX);
    tidy_all(true);
    size_t sparse = sparse_trim(), slots = superslab_purge(SIZE_MAX);
    superslab_close_empty();
    region_relieve(false);
    return sparse + slots;
}

static size_t trim(void) {
    size_t bytes = heap_relieve();
    region_relieve(true);
    return bytes;
}

/* --- Trims of several threads ------------------------------------------------------------------------------------- */

/* Threads that trim at the same time go through the same memory, each with the locks that the others wait for. So one
 * trims, and who comes meanwhile waits for the next that begins: it finds all that was free when he came. For he gave
 * that back under locks before he read `begun`, and the one whose number is higher takes these locks later: else he
 * would have read that number. So no order is needed here but for the result. A wait has an end: the thread may be a
 * handler's that has interrupted who trims. */
enum { TRIM_WAIT_MS = 20, TRIM_WAITS = 5 };

static hk_lock_t trim_lock = HK_LOCK_INIT(HK_RANK_TRIED); /* only tried */
static _Atomic uint32_t begun;                            /* written under trim_lock, as the next two */
static _Atomic uint32_t ended;                            /* the number of the last that is over, a futex */
static _Atomic size_t ended_with;                         /* the bytes that it gave back */

static size_t trim_as_next(void) {
    const uint32_t number = atomic_load_explicit(&begun, memory_order_relaxed) + 1;
    atomic_store_explicit(&begun, number, memory_order_relaxed);
    const size_t bytes = trim();
    atomic_store_explicit(&ended_with, bytes, memory_order_relaxed);
    atomic_store_explicit(&ended, number, memory_order_release); /* pairs with the acquire in heap_trim */
    return bytes;
}

size_t heap_trim(void) {
    const uint32_t before = atomic_load_explicit(&begun, memory_order_relaxed);
    for (unsigned waits = 0; waits < TRIM_WAITS; waits++) {
        const uint32_t over = atomic_load_explicit(&ended, memory_order_acquire);
        if ((int32_t)(over - before) > 0)
            return atomic_load_explicit(&ended_with, memory_order_relaxed);
        if (hk_try_lock(&trim_lock)) {
            const size_t bytes = trim_as_next();
            hk_unlock(&trim_lock);
            sys_futex_wake(&ended, INT32_MAX);
            return bytes;
        }
        sys_futex_wait(&ended, over, TRIM_WAIT_MS);
    }
    return trim();
}

void upkeep_after_fork_in_child(void) { round_lock = trim_lock = (hk_lock_t)HK_LOCK_INIT(HK_RANK_TRIED); }
