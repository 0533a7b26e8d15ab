/* SPDX-License-Identifier: MIT */
#include "superslab/purge.h"

#include "core/counters.h"
#include "core/events.h"
#include "core/options.h"
#include "core/panic.h"
#include "superslab/bins.h"
#include "superslab/dirty.h"
#include "superslab/haste.h"
#include "superslab/huge_pages.h"
#include "sys/sys.h"

enum {
    PURGE_RANGES_MAX = 32, /* they lie on the stack, which may be a signal handler's */
    HELD_WAIT_MS = 250,
    HASTE_LOOKS_MAX = 256, /* superslabs that are looked at for what may go in haste */
    DIRTY_KEEP_MIN = 64,   /* slots that may lie dirty while memory grows, where none may go in haste, */
    DIRTY_KEEP_SHARE = 8,  /* ... or this part of what is in use */
};

_Atomic bool hk_limit_near;
_Atomic uint32_t hk_slots_holders;      /* a futex */
static _Atomic uint32_t waiters;        /* for holders */
static _Atomic size_t floor_slot_count; /* option: written at start */
static _Atomic size_t growth_owed;      /* slots that memory has grown by and no purge has answered yet */
static _Atomic size_t grown;            /* ... since it was last asked for */

size_t superslab_waiting_bytes(void) {
    size_t dirty = pool_count(&hk_pool.dirty), floor = pool_count(&floor_slot_count);
    return dirty > floor ? (dirty - floor) << HK_SLOT_SHIFT : 0;
}

size_t superslab_taken_bytes(void) {
    size_t clean = pool_count(&hk_pool.free), all = pool_count(&hk_pool.present);
    clean -= hk_min(clean, pool_count(&hk_pool.dirty));
    clean += pool_count(&hk_pool.purging);
    return all > clean ? (all - clean) << HK_SLOT_SHIFT : 0;
}

size_t superslab_used_slots(void) {
    size_t all = pool_count(&hk_pool.present);
    return all - hk_min(all, pool_count(&hk_pool.free) + pool_count(&hk_pool.purging));
}

void superslab_set_floor(size_t bytes) {
    atomic_store_explicit(&floor_slot_count, bytes >> HK_SLOT_SHIFT, memory_order_relaxed);
}

/* One purge round: takes dirty slots out of the pool, at most PURGE_RANGES_MAX ranges. */
typedef struct purge_round {
    sys_range_t ranges[PURGE_RANGES_MAX];
    uint32_t superslabs[PURGE_RANGES_MAX];
    uint32_t masks[PURGE_RANGES_MAX];
    uint32_t broken[PURGE_RANGES_MAX]; /* superslabs that must have no huge pages from here on */
    size_t count, broken_count;
    bool in_haste;
} purge_round_t;

/* All dirty slots of the superslab. */
static void collect_superslab_locked(purge_round_t *round, superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->in_use && s->queued);
    /* With a huge page, slots came along that nobody has used yet. */
    if (s->huge && s->dirty_mask != 0)
        pool_set_dirty_locked(s, s->free_mask);
    if (s->huge && s->dirty_mask != 0 && s->free_mask != ALL_SLOTS && pool_set_huge_locked(s, false))
        round->broken[round->broken_count++] = pool_index(s);
    while (s->dirty_mask != 0 && round->count < PURGE_RANGES_MAX) {
        unsigned at = hk_ctz64(s->dirty_mask);
        unsigned length = hk_ctz64(~((uint64_t)s->dirty_mask >> at));
        uint32_t mask = (uint32_t)(hk_low_mask64(length) << at);
        round->ranges[round->count] =
            (sys_range_t){map_slot_address(pool_first_slot(s) + at), (size_t)length << HK_SLOT_SHIFT};
        round->superslabs[round->count] = pool_index(s);
        round->masks[round->count] = mask;
        round->count++;
        (void)pool_take_locked(s, mask);
        s->purging_mask |= mask;
        pool_change(&hk_pool.purging, (ptrdiff_t)length);
    }
}

/* Huge pages in part use are not taken apart in haste: their free slots will serve, and small pages are for good. */
static bool may_go(const purge_round_t *round, const superslab_t *s) {
    return !round->in_haste || !s->huge || s->free_mask == ALL_SLOTS;
}

static void collect_locked(purge_round_t *round, size_t slot_count) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    size_t floor = atomic_load_explicit(&floor_slot_count, memory_order_relaxed);
    size_t before = pool_count(&hk_pool.dirty);
    size_t asked = before - hk_min(before, slot_count), until = hk_max(floor, asked);
    uint32_t index = pool_dirty_head_locked();
    unsigned looks = round->in_haste ? HASTE_LOOKS_MAX : UINT32_MAX;
    for (; index != 0 && looks > 0 && round->count < PURGE_RANGES_MAX && round->broken_count < PURGE_RANGES_MAX &&
           pool_count(&hk_pool.dirty) > until;
         looks--) {
        superslab_t *s = pool_record(index);
        index = s->links[POOL_QUEUE].next;
        if (!may_go(round, s))
            continue;
        if (hk_popcount32(s->dirty_mask) > pool_count(&hk_pool.dirty) - asked)
            return; /* what is more than was asked for would be taken again soon */
        collect_superslab_locked(round, s);
        if (s->dirty_mask != 0)
            return;
    }
}

static size_t return_locked(const purge_round_t *round) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(round->count > 0 && round->count <= PURGE_RANGES_MAX);
    size_t bytes = 0;
    for (size_t i = 0; i < round->count; i++) {
        bytes += round->ranges[i].size;
        superslab_t *s = pool_record(round->superslabs[i]);
        s->purging_mask &= ~round->masks[i];
        if (round->in_haste) {
            s->hasty_mask |= round->masks[i];
            s->hasty_ms = (uint32_t)sys_now_ms();
        }
        pool_change(&hk_pool.purging, -(ptrdiff_t)hk_popcount32(round->masks[i]));
        pool_free_locked(round->superslabs[i], round->masks[i], false);
    }
    return bytes;
}

void superslab_after_fork(void) {
    if (atomic_load_explicit(&hk_slots_holders, memory_order_relaxed) == 0)
        return;
    hk_lock(&hk_superslab_lock);
    for (size_t i = region_next_used(1); i != 0; i = region_next_used(i + 1)) {
        superslab_t *s = pool_record(i);
        uint32_t mask = s->purging_mask;
        s->purging_mask = 0;
        if (mask != 0)
            pool_free_locked(i, mask, true);
    }
    pool_change(&hk_pool.purging, -(ptrdiff_t)pool_count(&hk_pool.purging));
    hk_unlock(&hk_superslab_lock);
    atomic_store_explicit(&hk_slots_holders, 0, memory_order_relaxed);
}

/* Sequentially consistent, as in superslab_wait_for_held: of who lets go and then looks for waiters, and who says that
 * he waits and then looks for holders, one sees the other. */
void superslab_let_go(void) {
    hk_assert(atomic_load_explicit(&hk_slots_holders, memory_order_relaxed) > 0);
    atomic_fetch_sub_explicit(&hk_slots_holders, 1, memory_order_seq_cst);
    if (hk_unlikely(atomic_load_explicit(&waiters, memory_order_seq_cst) != 0))
        sys_futex_wake(&hk_slots_holders, INT32_MAX);
}

bool superslab_wait_for_held(void) {
    if (atomic_load_explicit(&hk_slots_holders, memory_order_relaxed) == 0)
        return false;
    atomic_fetch_add_explicit(&waiters, 1, memory_order_seq_cst);
    uint32_t now = atomic_load_explicit(&hk_slots_holders, memory_order_seq_cst);
    if (now != 0)
        sys_futex_wait(&hk_slots_holders, now, HELD_WAIT_MS);
    atomic_fetch_sub_explicit(&waiters, 1, memory_order_relaxed);
    return true;
}

/* Live bits of superslabs that go as a whole: nobody has a block there, so they are clear, or will be when a slab
 * opens. They are a 128th of the heap, which a process that was large once would keep. Not in haste: the superslabs
 * serve again soon. */
static void purge_live_bits(const purge_round_t *round) {
    sys_range_t ranges[PURGE_RANGES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < round->count && !round->in_haste; i++) {
        if (round->masks[i] != ALL_SLOTS)
            continue;
        sys_range_t range = map_live_range(pool_first_slot(pool_record(round->superslabs[i])), SLOTS);
        if (((uintptr_t)range.address | range.size) % sys_page_size() == 0)
            ranges[count++] = range;
    }
    if (count > 0)
        hk_count_by(purge_calls, sys_purge_many(ranges, count));
}

static void purge_round(const purge_round_t *round) {
    hk_assert(round->count <= PURGE_RANGES_MAX && round->broken_count <= PURGE_RANGES_MAX);
    for (size_t i = 0; i < round->broken_count; i++)
        sys_break_huge(region_superslab_address(round->broken[i]), HK_SUPERSLAB_SIZE);
    hk_count_by(purge_calls, sys_purge_many(round->ranges, round->count));
    purge_live_bits(round);
}

static size_t purge(size_t slot_count, bool in_haste) {
    size_t total = 0;
    purge_round_t round = {.in_haste = in_haste};
    do {
        round.count = round.broken_count = 0;
        hk_lock(&hk_superslab_lock);
        collect_locked(&round, slot_count - (total >> HK_SLOT_SHIFT));
        if (round.count > 0)
            superslab_hold();
        hk_unlock(&hk_superslab_lock);
        if (round.count == 0)
            break;
        purge_round(&round);
        hk_lock(&hk_superslab_lock);
        size_t bytes = return_locked(&round);
        hk_unlock(&hk_superslab_lock);
        superslab_let_go();
        hk_count_by(purged_bytes, bytes);
        event_purge(bytes, EVENT_PURGE_FREE);
        total += bytes;
    } while (total >> HK_SLOT_SHIFT < slot_count);
    return total;
}

size_t superslab_purge(size_t slot_count) { return purge(slot_count, false); }

/* --- In haste --------------------------------------------------------------------------------------------------- */

size_t superslab_purge_in_haste(size_t slot_count) {
    size_t may = hk_min(slot_count, haste_allowance()), bytes = may > 0 ? purge(may, true) : 0;
    superslab_went_in_haste(bytes);
    return bytes;
}

size_t superslab_grown(void) { return atomic_exchange_explicit(&grown, 0, memory_order_relaxed); }

/* Dirty slots that growth leaves where they are. */
static size_t kept_beside_growth(void) {
    if (atomic_load_explicit(&hk_limit_near, memory_order_relaxed))
        return 0;
    return hk_max(DIRTY_KEEP_MIN, superslab_taken_bytes() / DIRTY_KEEP_SHARE >> HK_SLOT_SHIFT);
}

void pool_purge_for_growth(size_t slot_count) {
    size_t dirty = pool_count(&hk_pool.dirty);
    if (slot_count == 0)
        return;
    atomic_fetch_add_explicit(&grown, slot_count, memory_order_relaxed);
    if (dirty == 0 || hk_option(HK_OPT_PURGE_DELAY) < 0 || sys_purge_refused())
        return;
    /* All of a superslab goes back at once, so growth gathers until it is worth one. */
    size_t owed = atomic_fetch_add_explicit(&growth_owed, slot_count, memory_order_relaxed) + slot_count;
    if (owed < SLOTS)
        return;
    owed = atomic_exchange_explicit(&growth_owed, 0, memory_order_relaxed);
    size_t must = hk_min(owed, dirty - hk_min(dirty, kept_beside_growth())),
           went = must > 0 ? superslab_purge(must) : 0;
    if (went >> HK_SLOT_SHIFT < owed)
        (void)superslab_purge_in_haste(owed - (went >> HK_SLOT_SHIFT));
}
