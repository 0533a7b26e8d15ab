/* SPDX-License-Identifier: MIT */
#include "upkeep/sparse.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/events.h"
#include "core/panic.h"
#include "heap/lists.h"
#include "heap/remote.h"
#include "heap/slab_walk.h"
#include "large/run.h"
#include "region/region.h"
#include "superslab/superslab.h"
#include "sys/sys.h"

#include <string.h>

enum {
    SLOTS_A_ROUND_MIN = 16384, /* 1 GiB; a round over them takes two milliseconds or so */
    ROUND_SHARE = 8,           /* a large heap is seen in so many rounds */
    STRETCHES_MAX = 64,    /* those of a slab fit, with at most 128 blocks, or 16 pages; and all on a handler's stack */
    TRIES_A_ROUND = 50000, /* at locks that are taken: two milliseconds or so */
    TRIES_A_RETURN = 2000,
    TRIES_TO_TRIM = 1000000,
    CLOCK_STEPS = 254, /* readings 2 .. 255 */
    STEPS_OF_DELAY = 8,
    STEP_MS_MIN = 8,
};

/* What a slab's age is compared with. */
typedef struct idle_clock {
    uint8_t now;
    uint8_t wait; /* steps; 0: everything is idle */
} idle_clock_t;

/* Runs of free blocks that were taken out of their slabs. */
typedef struct taken_stretch {
    slot_t slab;
    uint16_t first, end;
} taken_stretch_t;

typedef struct batch {
    sys_range_t ranges[STRETCHES_MAX];
    taken_stretch_t stretches[STRETCHES_MAX];
    size_t count;
    size_t resident_bytes; /* of the ranges */
    slab_walk_t walk;
    slot_t behind;                                    /* what has been looked at */
    unsigned char resident[HK_SUPERSLAB_SIZE / 4096]; /* bit 0 of a byte for each page of the superslab at hand */
} batch_t;

/* Where the next round goes on; any caller. */
static _Atomic size_t cursor;

static idle_clock_t clock_at(uint64_t now_ms, uint64_t delay_ms, unsigned part) {
    uint64_t step = hk_max(delay_ms / STEPS_OF_DELAY, STEP_MS_MIN);
    return (idle_clock_t){(uint8_t)(2 + now_ms / step % CLOCK_STEPS), (uint8_t)((delay_ms / part + step - 1) / step)};
}

static bool is_idle(slab_t *slab, idle_clock_t clock) {
    if (slab->age == SLAB_AGE_NEW)
        slab->age = clock.now;
    return (unsigned)(clock.now + CLOCK_STEPS - slab->age) % CLOCK_STEPS >= clock.wait;
}

/* --- Runs of pages ------------------------------------------------------------------------------------------------ */

/* The whole pages that the free blocks [first, end) cover; size 0 when there are none. */
static sys_range_t pages_of_stretch(const slab_t *slab, unsigned first, unsigned end) {
    const size_class_info_t *info = &hk_class_info[slab->cls];
    size_t page = sys_page_size(), size = info->block_size;
    size_t from = hk_align_up(first * size, page);
    size_t to = end == slab->block_count ? (size_t)info->slab_slots << HK_SLOT_SHIFT : hk_align_down(end * size, page);
    return (sys_range_t){slab_base(slab) + from, to > from ? to - from : 0};
}

/* Stretches of whole pages in it at most: something in use lies between any two, be it a block or a page of one. */
static size_t stretches_max(const slab_t *slab) {
    size_t pages = ((size_t)hk_class_info[slab->cls].slab_slots << HK_SLOT_SHIFT) / sys_page_size();
    return (hk_min(pages, slab->block_count) + 1) / 2;
}

/* Where blocks come and go beside a hole, most of it went long ago: only what was there counts. Where the kernel does
 * not say what that is, all of it. */
static void look_at_pages(batch_t *batch, slot_t first) {
    if (sys_resident(map_slot_address(first), HK_SUPERSLAB_SIZE, batch->resident) != 0)
        memset(batch->resident, 1, sizeof batch->resident);
}

static size_t count_resident(const batch_t *batch, sys_range_t range) {
    size_t page = sys_page_size(), at = ((uintptr_t)range.address & (HK_SUPERSLAB_SIZE - 1)) / page, bytes = 0;
    for (size_t i = at; i < at + range.size / page; i++)
        bytes += (batch->resident[i] & 1) * page;
    return bytes;
}

static void collect_slab_locked(batch_t *batch, slab_t *slab) {
    hk_assert(hk_lock_is_held(&batch->walk.held->lock));
    unsigned end, before = slab->free_count;
    slab->age = SLAB_AGE_PURGED;
    for (unsigned first = slab_next_stretch(slab, 0, &end); first < slab->block_count;
         first = slab_next_stretch(slab, end, &end)) {
        sys_range_t range = pages_of_stretch(slab, first, end);
        if (range.size == 0)
            continue;
        hk_assert(batch->count < STRETCHES_MAX);
        if (batch->count == 0)
            superslab_hold();
        slab_take_stretch(slab, first, end);
        batch->resident_bytes += count_resident(batch, range);
        batch->ranges[batch->count] = range;
        batch->stretches[batch->count++] = (taken_stretch_t){slab_slot(slab), (uint16_t)first, (uint16_t)end};
    }
    if (slab->free_count != before)
        heap_settle_locked(batch->walk.held, slab);
}

/* The blocks come back to their slab, whose owner may be another by now. */
static void return_stretch(batch_t *batch, const taken_stretch_t *stretch) {
    slab_t *slab = slab_at(stretch->slab);
    uint32_t owner = atomic_load_explicit(&slab->owner, memory_order_relaxed);
    bool held =
        slab_walk_hold(&batch->walk, owner) && atomic_load_explicit(&slab->owner, memory_order_relaxed) == owner;
    uint8_t age = held ? slab->age : SLAB_AGE_NEW;
    if (!held)
        slab_walk_let_go(&batch->walk);
    for (unsigned w = stretch->first / 64; w * 64u < stretch->end; w++) {
        uint64_t bits = slab_stretch_bits(w, stretch->first, stretch->end);
        if (held)
            (void)slab_give(slab, w, bits);
        else
            (void)heap_remote_give(&(remote_entry_t){heap_remote_key(slab_base(slab), w * 64), bits});
    }
    if (!held)
        return;
    slab->age = age;
    heap_settle_locked(batch->walk.held, slab);
}

static size_t purge_batch(batch_t *batch) {
    slab_walk_let_go(&batch->walk);
    if (batch->count == 0)
        return 0;
    hk_count_by(purge_calls, sys_purge_many(batch->ranges, batch->count));
    size_t bytes = batch->resident_bytes;
    uint32_t tries = batch->walk.tries;
    batch->walk.tries = TRIES_A_RETURN;
    for (size_t i = 0; i < batch->count; i++)
        return_stretch(batch, &batch->stretches[i]);
    slab_walk_let_go(&batch->walk);
    superslab_let_go();
    batch->walk.tries = tries;
    batch->count = batch->resident_bytes = 0;
    hk_count_by(purged_bytes, bytes);
    hk_count_by(sparse_bytes, bytes);
    event_purge(bytes, EVENT_PURGE_HOLES);
    return bytes;
}

/* --- Superslabs --------------------------------------------------------------------------------------------------- */

/* Whether a slab has holes that did not go yet. */
static HK_SNAPSHOT bool has_holes(const slab_t *slab) {
    return slab->age != SLAB_AGE_PURGED && slab->free_count != 0 && !slab_is_empty(slab);
}

/* Whether a slab may begin in the slot that has such holes. This is read without a lock, so it is a hint; it spares the
 * lock of most slabs. It misses no block whose free happened before the round began. `*next`: where the look goes on,
 * behind a run that begins in the slot. Acquire: pairs with the release in map_set, so its length is that of this run,
 * or of another that came to its place since. */
static HK_SNAPSHOT bool may_have_holes(slot_t slot, slot_t *next) {
    uint32_t entry = slot < map_count() ? map_entry(slot) : 0;
    *next = slot + 1;
    if (entry == 0 || entry == HK_MAP_RUN_BODY)
        return false;
    if (!map_is_run(entry))
        return has_holes(slab_at(slot));
    atomic_thread_fence(memory_order_acquire);
    *next = slot + large_run(map_slot_address(slot))->slot_count;
    hk_assert(*next > slot && *next <= map_count());
    return false;
}

/* Slots of the superslab whose slab is idle, as a mask; adds up what they hold free. */
static uint32_t idle_slabs(batch_t *batch, slot_t first, idle_clock_t clock, size_t *free_bytes, size_t *waiting) {
    uint32_t idle = 0;
    slot_t next = first;
    for (slot_t slot = first; slot < first + HK_SLOTS_PER_SUPERSLAB; slot = next) {
        slab_t *slab = may_have_holes(slot, &next) ? slab_walk_at(&batch->walk, slot) : NULL;
        if (slab == NULL || !has_holes(slab))
            continue;
        size_t bytes = (size_t)slab->free_count * hk_class_info[slab->cls].block_size;
        if (!is_idle(slab, clock)) {
            *waiting += bytes;
            continue;
        }
        idle |= UINT32_C(1) << (slot - first);
        *free_bytes += bytes;
    }
    batch->behind = next;
    slab_walk_let_go(&batch->walk);
    return idle;
}

/* The slab that begins in the slot, its owner's lock held, with room for its stretches. */
static slab_t *slab_with_room(batch_t *batch, slot_t slot, size_t *purged_bytes) {
    slab_t *slab = slab_walk_at(&batch->walk, slot);
    if (slab == NULL || batch->count + stretches_max(slab) <= STRETCHES_MAX)
        return slab;
    hk_assert(stretches_max(slab) <= STRETCHES_MAX);
    *purged_bytes += purge_batch(batch);
    return slab_walk_at(&batch->walk, slot);
}

static void purge_superslab(batch_t *batch, slot_t first, idle_clock_t clock, sparse_result_t *result) {
    size_t free_bytes = 0;
    uint32_t idle = idle_slabs(batch, first, clock, &free_bytes, &result->waiting_bytes);
    if (idle == 0 || !superslab_make_small(first / HK_SLOTS_PER_SUPERSLAB, free_bytes))
        return;
    look_at_pages(batch, first);
    for (; idle != 0; idle &= idle - 1) {
        slab_t *slab = slab_with_room(batch, first + hk_ctz64(idle), &result->purged_bytes);
        if (slab != NULL && slab->age != SLAB_AGE_PURGED && !slab_is_empty(slab) && is_idle(slab, clock))
            collect_slab_locked(batch, slab);
    }
    slab_walk_let_go(&batch->walk);
}

/* Looks at `count` superslabs in use from `*at` on, as far as the tries reach, and says in `*at` which is next; 0
 * behind the last. */
static void look_at(size_t *at, size_t count, idle_clock_t clock, uint32_t tries, sparse_result_t *result) {
    batch_t batch = {.walk.tries = tries};
    size_t index = region_next_used(*at), done = 0;
    if (index == 0)
        index = region_next_used(0);
    while (index != 0 && done < count && batch.walk.tries > 0) {
        purge_superslab(&batch, (slot_t)(index * HK_SLOTS_PER_SUPERSLAB), clock, result);
        size_t next = batch.behind / HK_SLOTS_PER_SUPERSLAB;
        hk_assert(next > index);
        done += next - index;
        index = region_next_used(next);
    }
    result->purged_bytes += purge_batch(&batch);
    result->looked_at_bytes = done << HK_SUPERSLAB_SHIFT;
    *at = index;
}

sparse_result_t sparse_round_within(uint64_t now_ms, uint64_t delay_ms, unsigned part) {
    size_t all = pool_count(&hk_pool.superslabs);
    size_t some = hk_max(SLOTS_A_ROUND_MIN / HK_SLOTS_PER_SUPERSLAB, (all + ROUND_SHARE - 1) / ROUND_SHARE);
    size_t at = atomic_load_explicit(&cursor, memory_order_relaxed);
    sparse_result_t result = {0};
    look_at(&at, some, clock_at(now_ms, delay_ms, part), TRIES_A_ROUND, &result);
    atomic_store_explicit(&cursor, at, memory_order_relaxed);
    return result;
}

size_t sparse_trim(void) {
    sparse_result_t result = {0};
    size_t at = 0;
    look_at(&at, SIZE_MAX, (idle_clock_t){.now = 2, .wait = 0}, TRIES_TO_TRIM, &result);
    return result.purged_bytes;
}
