/* SPDX-License-Identifier: MIT */
#include "heap/magazine.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/options.h"
#include "heap/crowd.h"
#include "heap/flush.h"
#include "heap/supply.h"
#include "map/meta.h"
#include "superslab/superslab.h"

#include <string.h>

enum {
    BUDGET_BYTES_MAX = 4 << 20,       /* what a small heap's magazines may be able to hold: */
    BUDGET_BYTES_MIN = 64 << 10,      /* ... so much in any case, in a crowd no more; */
    BUDGET_BYTES_TOGETHER = 16 << 20, /* ... its part of what those of all such heaps may hold, */
    TOGETHER_SHARE = 8,               /* ... or of this part of the memory in use */
    SWEEP_BYTES = 256 << 10,  /* a thread that only frees empties all magazines each time it has flushed so much */
    LONG_RUN_BYTES = 8 << 20, /* ... and when it has flushed so much makes them small, */
    LONG_RUN_BLOCKS = 16,     /* as each block in one that was freed at random keeps a page */
    BUDGET_SHARE_MIN = 4,     /* magazines of a large heap may be able to hold this part of what it owns, */
    BUDGET_SHARE_MAX = 8,     /* ... or with more threads this, */
    BUDGET_SHARE_THRONG = 32, /* ... as slabs of which a block is used count whole */
    GROW_EVENTS = 2,
    LARGE_EVENTS = 4,
    LARGE_BUDGET_BYTES = 4 << 20,
    IDLE_TICKS_BEFORE_SHRINK = 8,
    STILL_TICKS_BEFORE_DROP = 4,
    RETIRED_SLOTS = 64, /* the arrays of a thread that is over stay for the next one, up to this size */
};

/* A magazine of one block has places for the block and for what lies below it. */
static size_t array_bytes(unsigned capacity) { return hk_max(capacity, 2) * sizeof(granule_t); }

/* Whose array the blocks are in from its second place on, the one on top as well as in its place there. */
static void set_count(heap_t *h, unsigned cls, unsigned count) {
    bin_t *bin = &h->front.bins[cls];
    granule_t *array = h->class_stats[cls].array;
    hk_write(array[0], 0);
    hk_write(bin->top, array[count]);
    /* Release: pairs with the acquire in is_in_magazine. */
    hk_write_release(bin->below, array + count - 1);
}

/* Gives the magazine another array, with the same blocks. In this order, so that a fork between two steps leaves the child a magazine
 * that it can flush: none of the blocks, or all. Releases: for a child whose fork took no lock; the last also pairs with the acquire
 * in is_in_magazine. */
static void set_array_locked(heap_t *h, unsigned cls, granule_t *array, unsigned capacity) {
    bin_t *bin = &h->front.bins[cls];
    uint64_t count = heap_bin_count(h, cls);
    granule_t top = bin->top;
    hk_write(bin->below, NULL);
    hk_write_release(bin->top, 0);
    hk_write(bin->last, NULL);
    hk_write_release(h->class_stats[cls].array, array);
    if (array == NULL)
        return;
    hk_write_release(bin->last, array + capacity - 1);
    hk_write(bin->top, top);
    hk_write_release(bin->below, array + count - 1);
}

/* Gives the magazine another capacity; its count must fit. False when there is no memory for it. */
static bool set_capacity(heap_t *h, unsigned cls, unsigned capacity) {
    granule_t *array = NULL, *old = h->class_stats[cls].array;
    unsigned before = heap_bin_capacity(h, cls);
    uint64_t count = heap_bin_count(h, cls);
    hk_assert(count <= capacity);
    if (capacity > 0) {
        array = meta_alloc(array_bytes(capacity));
        if (array == NULL)
            return false;
        if (count > 0)
            memcpy(array, old, count * sizeof *array);
    }
    heap_lock(h); /* for those who count */
    set_array_locked(h, cls, array, capacity);
    heap_unlock(h);
    if (old != NULL)
        meta_free(old, array_bytes(before));
    h->magazine_bytes += capacity * (size_t)hk_class_info[cls].block_size;
    h->magazine_bytes -= before * (size_t)hk_class_info[cls].block_size;
    uint64_t bit = UINT64_C(1) << (cls % 64);
    h->bins_in_use[cls / 64] = capacity > 0 ? h->bins_in_use[cls / 64] | bit : h->bins_in_use[cls / 64] & ~bit;
    return true;
}

size_t magazine_budget(size_t owned, size_t in_use, size_t threads, heap_press_t press) {
    size_t together = hk_max(BUDGET_BYTES_TOGETHER, in_use / TOGETHER_SHARE);
    size_t part = hk_max(BUDGET_BYTES_MIN, hk_min(together / threads, BUDGET_BYTES_MAX));
    size_t share = hk_max(BUDGET_SHARE_MIN, hk_min(threads, BUDGET_SHARE_MAX));
    return hk_max(press == HEAP_ROOM ? part : BUDGET_BYTES_MIN,
                  owned / (press == HEAP_THRONG ? BUDGET_SHARE_THRONG : share));
}

static heap_press_t press(void) { return heap_is_throng() ? HEAP_THRONG : heap_is_crowded() ? HEAP_CROWD : HEAP_ROOM; }

static bool budget_allows(const heap_t *h, size_t more_bytes) {
    size_t owned = (size_t)atomic_load_explicit(&h->slot_count, memory_order_relaxed) << HK_SLOT_SHIFT;
    size_t budget = magazine_budget(owned, superslab_taken_bytes(), hk_max(heap_thread_count(), 1), press());
    return h->magazine_bytes + more_bytes <= budget;
}

/* The first capacity of a class needs no room in the budget, but in a throng for blocks above the tiny ones: a thread that used some of
 * each size and sleeps would keep them all. */
static bool may_begin(const heap_t *h, unsigned cls) {
    const size_class_info_t *info = &hk_class_info[cls];
    return cls < HK_TINY_CLASSES || !heap_is_throng() ||
           budget_allows(h, info->magazine_min * (size_t)info->block_size);
}

/* A refill or a flush happened: grows the magazine when it happens often. */
static void note_event(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    const size_class_info_t *info = &hk_class_info[cls];
    unsigned capacity = heap_bin_capacity(h, cls);
    if (capacity == 0) {
        if (may_begin(h, cls))
            (void)set_capacity(h, cls, info->magazine_min);
        return;
    }
    if (++stats->events < GROW_EVENTS || capacity >= info->magazine_max || hk_option(HK_OPT_ADAPT) == 0)
        return;
    stats->events = 0;
    unsigned wanted = capacity * 2 < info->magazine_max ? capacity * 2 : info->magazine_max;
    if (budget_allows(h, (wanted - capacity) * (size_t)info->block_size) && set_capacity(h, cls, wanted))
        hk_count(magazine_grows);
}

/* Takes the block on top; the magazine is not empty. */
static void *pop(heap_t *h, unsigned cls) {
    bin_t *bin = &h->front.bins[cls];
    granule_t granule = bin->top, *below = bin->below, next = *below;
    hk_write(bin->below, below - 1);
    hk_write_release(bin->top, next); /* as in front_pop */
    h->front.countdown -= (int64_t)hk_min(hk_class_info[cls].block_size, HEAP_TICK_MID_BYTES);
    map_set_live(granule);
    return map_granule_address(granule);
}

/* --- Large classes ------------------------------------------------------------------------------------------------------ */

void *magazine_take_large(heap_t *h, unsigned cls) { return heap_bin_count(h, cls) > 0 ? pop(h, cls) : NULL; }

/* A class gets a magazine when it is asked for a few times within one tick. */
bool magazine_wants_large(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    if (heap_bin_capacity(h, cls) > 0)
        return true;
    if (++stats->events < LARGE_EVENTS || hk_option(HK_OPT_ADAPT) == 0)
        return false;
    size_t most = hk_max(LARGE_BUDGET_BYTES, (size_t)hk_class_info[cls].block_size);
    unsigned capacity = hk_class_info[cls].magazine_max;
    if (h->magazine_bytes + capacity * (size_t)hk_class_info[cls].block_size > most)
        capacity = 1;
    if (h->magazine_bytes + capacity * (size_t)hk_class_info[cls].block_size > most)
        return false;
    return set_capacity(h, cls, capacity);
}

/* --- Alloc and free ----------------------------------------------------------------------------------------------------- */

static unsigned refill(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    unsigned capacity = heap_bin_capacity(h, cls), want = (capacity + 1) / 2;
    granule_t *blocks = h->class_stats[cls].array + 1;
    h->run_bytes = h->run_total = 0;
    heap_lock(h);
    unsigned got = want == 0 ? 0 : heap_take_locked(h, cls, blocks + want, want);
    doubled_t doubled = heap_take_doubled_locked(h);
    stats->refilled += got;
    heap_count_taken_locked(h, cls, got);
    stats->refills++;
    if (got < want && got > 0)
        memmove(blocks, blocks + want - got, got * sizeof *blocks);
    if (got > 0)
        set_count(h, cls, got);
    heap_unlock(h);
    heap_report_doubled(h, &doubled);
    return got;
}

/* Without memory for a magazine a block comes straight from a slab. */
static void *alloc_without_magazine(heap_t *h, unsigned cls) {
    block_past_t past;
    return heap_take_one(h, cls, &past);
}

void *magazine_alloc(heap_t *h, unsigned cls) {
    if (heap_bin_count(h, cls) > 0)
        return pop(h, cls);
    note_event(h, cls);
    if (heap_bin_capacity(h, cls) == 0)
        return alloc_without_magazine(h, cls);
    return refill(h, cls) > 0 ? pop(h, cls) : NULL;
}

/* Calls `act` for each magazine that has a capacity, from a word of them on. */
static void for_each_bin_from(heap_t *h, unsigned word, void (*act)(heap_t *, unsigned)) {
    for (; word < sizeof h->bins_in_use / sizeof h->bins_in_use[0]; word++)
        for (uint64_t bits = h->bins_in_use[word]; bits != 0; bits &= bits - 1)
            act(h, word * 64 + hk_ctz64(bits));
}

static void for_each_bin(heap_t *h, void (*act)(heap_t *, unsigned)) { for_each_bin_from(h, 0, act); }

/* Gives all that the magazine holds back. */
static void empty(heap_t *h, unsigned cls) {
    unsigned count = (unsigned)heap_bin_count(h, cls);
    if (count > 0)
        magazine_flush(h, cls, count);
}

static void drop(heap_t *h, unsigned cls) {
    empty(h, cls);
    (void)set_capacity(h, cls, 0);
}

/* In a long run of frees: what the magazine takes after this may stay when the thread goes to sleep. */
static void empty_and_shrink(heap_t *h, unsigned cls) {
    empty(h, cls);
    if (heap_bin_capacity(h, cls) > LONG_RUN_BLOCKS && hk_option(HK_OPT_ADAPT) != 0)
        (void)set_capacity(h, cls, LONG_RUN_BLOCKS);
}

/* Makes room in a full magazine, or leaves none: the block then goes straight to its slab. A thread that frees on and on
 * without an allocation in between may go to sleep next; what its magazines hold nobody else could give back. */
static void make_room(heap_t *h, unsigned cls) {
    if (h->front.countdown != h->run_countdown)
        h->run_bytes = h->run_total = 0;
    bool crowded = heap_is_crowded(), runs = h->run_bytes > 0;
    if (!runs)
        note_event(h, cls);
    unsigned count = (unsigned)heap_bin_count(h, cls);
    if (count > 0 && count == heap_bin_capacity(h, cls)) {
        magazine_flush(h, cls, runs ? count : (count + 1) / 2);
        h->run_bytes += (size_t)count * hk_class_info[cls].block_size;
    }
    if (runs && h->run_bytes >= (crowded ? 1 : SWEEP_BYTES)) {
        for_each_bin(h, crowded ? drop : h->run_total >= LONG_RUN_BYTES ? empty_and_shrink : empty);
        h->run_bytes = 1;
    }
    h->run_countdown = h->front.countdown;
}

void magazine_free(heap_t *h, unsigned cls, void *block) {
    bin_t *bin = &h->front.bins[cls];
    if (bin->below == bin->last && cls < HK_CLASS_COUNT)
        make_room(h, cls);
    if (bin->below == bin->last)
        magazine_give_one(h, cls, block);
    else
        bin_push(bin, map_granule(block));
}

/* --- When the thread is over, and now and then --------------------------------------------------------------------------- */

void magazine_drop_all(heap_t *h) { for_each_bin(h, drop); }

_Static_assert(HK_CLASS_COUNT == HK_MAP_CLASS_LARGE && HK_CLASS_COUNT % 64 == 0,
               "runs have words of bins of their own");

void magazine_drop_large(heap_t *h) { for_each_bin_from(h, HK_MAP_CLASS_LARGE / 64, drop); }

static void retire(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    stats->events = stats->idle_ticks = stats->still_ticks = 0;
    if (heap_is_crowded() || heap_bin_capacity(h, cls) > RETIRED_SLOTS)
        drop(h, cls);
    else
        empty(h, cls);
}

void magazine_retire_all(heap_t *h) { for_each_bin(h, retire); }

/* Between two arrays: none, and its blocks are lost. Between two steps of malloc or free: a block on top that does not count is lost. */
static void mend(heap_t *h, unsigned cls) {
    bin_t *bin = &h->front.bins[cls];
    if (bin->below == NULL || bin->last == NULL) {
        bin->below = bin->last = h->class_stats[cls].array = NULL;
        bin->top = 0;
        return;
    }
    if (heap_bin_count(h, cls) == 0)
        bin->top = 0;
    h->bins_in_use[cls / 64] |= UINT64_C(1) << (cls % 64);
    h->magazine_bytes += heap_bin_capacity(h, cls) * (size_t)hk_class_info[cls].block_size;
}

void magazine_mend(heap_t *h) {
    memset(h->bins_in_use, 0, sizeof h->bins_in_use);
    h->magazine_bytes = 0;
    for (unsigned cls = 0; cls < HK_BIN_COUNT; cls++)
        mend(h, cls);
}

static void shrink(heap_t *h, unsigned cls, unsigned wanted) {
    unsigned count = (unsigned)heap_bin_count(h, cls);
    if (count > wanted)
        magazine_flush(h, cls, count - wanted);
    if (set_capacity(h, cls, wanted))
        hk_count(magazine_shrinks);
}

static void tick_class_locked(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    uint64_t count = heap_bin_count(h, cls), pops = heap_pops(h, cls, count);
    uint32_t seen = (uint32_t)count ^ stats->flushes << 16;
    bool used = pops != stats->seen_pops, still = !used && seen == stats->seen;
    stats->seen_pops = pops;
    stats->events = 0;
    stats->seen = seen;
    stats->idle_ticks = used || stats->idle_ticks == UINT8_MAX ? 0 : (uint8_t)(stats->idle_ticks + 1);
    stats->still_ticks = !still || stats->still_ticks == UINT8_MAX ? 0 : (uint8_t)(stats->still_ticks + 1);
}

/* A class that is only freed may be in the second half of a swing: it gives back half of its capacity. One that is not used
 * at all gives back everything: a few blocks that were freed at random keep as many slabs from emptying as many do. */
static void shrink_if_idle(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    unsigned half = heap_bin_capacity(h, cls) / 2;
    bool still = stats->still_ticks >= STILL_TICKS_BEFORE_DROP;
    if (!still && stats->idle_ticks < IDLE_TICKS_BEFORE_SHRINK)
        return;
    stats->idle_ticks = stats->still_ticks = 0;
    shrink(h, cls, still || half < hk_class_info[cls].magazine_min ? 0 : half);
}

void magazine_tick(heap_t *h) {
    heap_lock(h);
    for_each_bin(h, tick_class_locked);
    for (unsigned cls = HK_CLASS_COUNT; cls < HK_BIN_COUNT; cls++)
        h->class_stats[cls].events = 0;
    heap_unlock(h);
    if (hk_option(HK_OPT_ADAPT) != 0)
        for_each_bin(h, shrink_if_idle);
}
