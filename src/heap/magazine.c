/* SPDX-License-Identifier: MIT */
#include "heap/magazine.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/options.h"
#include "core/panic.h"
#include "heap/budget.h"
#include "heap/flush.h"
#include "heap/slot_cache.h"
#include "heap/supply.h"
#include "map/meta.h"
#include "superslab/superslab.h"

#include <string.h>

enum {
    SWEEP_BYTES = 256 << 10,     /* a thread that only frees empties all magazines each time it has flushed so much; */
    SWEEP_SHIFT_MAX = 5,         /* ... twice as much after each time that was in vain, but no more than */
    LONG_STREAK_BYTES = 8 << 20, /* ... this; and a thread that has flushed so much makes them small, */
    LONG_STREAK_BLOCKS = 16,     /* as each block in one that was freed at random keeps a page */
    GROW_EVENTS = 2,
    EARNED_EVENTS = 32,     /* a class must be asked for so often, */
    EARNED_SHARE = 4,       /* ... and be this part of what is asked for; */
    EARNED_EVENTS_LONG = 8, /* ... one of runs that are too long for a heap's free slots, so often alone */
    LARGE_BUDGET_BYTES = 4 << 20,
    IDLE_TICKS_BEFORE_SHRINK = 8,
    STILL_TICKS_BEFORE_DROP = 4,
    CIRCULATES_SHARE = 3, /* a thread keeps what it frees of others where it is this part of what it allocates */
    RETIRED_SLOTS = 64,   /* the arrays of a thread that is over stay for the next one, up to this size */
};

/* A magazine of one block has places for the block and for what lies below it. */
static size_t array_bytes(unsigned capacity) { return hk_max(capacity, 2) * sizeof(granule_t); }

/* Whose array the blocks are in from its second place on, the one on top as well as in its place there. */
static void set_count(heap_t *h, unsigned cls, unsigned count) {
    hk_assert(count > 0 && count <= heap_magazine_capacity(h, cls));
    magazine_t *magazine = &h->front.magazines[cls];
    granule_t *array = h->class_stats[cls].array;
    hk_write(array[0], 0);
    hk_write(magazine->top, array[count]);
    /* Release: pairs with the acquire in is_in_magazine. */
    hk_write_release(magazine->below, array + count - 1);
}

/* Gives the magazine another array, with the same blocks. In this order, so that a fork between two steps leaves the
 * child a magazine that it can flush: none of the blocks, or all. Releases: for a child whose fork took no lock; the
 * last also pairs with the acquire in is_in_magazine. */
static void set_array_locked(heap_t *h, unsigned cls, granule_t *array, unsigned capacity) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert((array == NULL) == (capacity == 0));
    hk_assert(heap_magazine_count(h, cls) <= capacity);
    magazine_t *magazine = &h->front.magazines[cls];
    uint64_t count = heap_magazine_count(h, cls);
    granule_t top = magazine->top;
    hk_write(magazine->below, NULL);
    hk_write_release(magazine->top, 0);
    hk_write(magazine->last, NULL);
    hk_write_release(h->class_stats[cls].array, array);
    if (array == NULL)
        return;
    hk_write_release(magazine->last, array + capacity - 1);
    hk_write(magazine->top, top);
    hk_write_release(magazine->below, array + count - 1);
}

/* Gives the magazine another capacity; its count must fit. False when there is no memory for it. */
static HK_COLD bool set_capacity(heap_t *h, unsigned cls, unsigned capacity) {
    hk_assert(cls < HK_MAGAZINE_COUNT && capacity <= hk_class_info[cls].magazine_max);
    granule_t *array = NULL, *old = h->class_stats[cls].array;
    unsigned before = heap_magazine_capacity(h, cls);
    uint64_t count = heap_magazine_count(h, cls);
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
    h->magazines_in_use[cls / 64] =
        capacity > 0 ? h->magazines_in_use[cls / 64] | bit : h->magazines_in_use[cls / 64] & ~bit;
    return true;
}

/* The first capacity of a class needs no room in the budget, but when heavily oversubscribed for blocks above the tiny
 * ones: a thread that used some of each size and sleeps would keep them all. */
static bool may_begin(const heap_t *h, unsigned cls) {
    const size_class_info_t *info = &hk_class_info[cls];
    return cls < HK_TINY_CLASSES || heap_press() != HEAP_HEAVILY ||
           budget_allows(h, info->magazine_min * (size_t)info->block_size);
}

/* A refill or a flush happened: grows the magazine when it happens often. */
static HK_COLD void note_event(heap_t *h, unsigned cls) {
    hk_assert(cls < HK_CLASS_COUNT);
    heap_class_stats_t *stats = &h->class_stats[cls];
    const size_class_info_t *info = &hk_class_info[cls];
    unsigned capacity = heap_magazine_capacity(h, cls);
    if (capacity == 0) {
        if (may_begin(h, cls))
            (void)set_capacity(h, cls, info->magazine_min);
        return;
    }
    if (++stats->events < GROW_EVENTS || capacity >= info->magazine_max || hk_option(HK_OPT_ADAPT) == 0)
        return;
    stats->events = 0;
    unsigned wanted = capacity * 2 < info->magazine_max ? capacity * 2 : info->magazine_max;
    size_t more = (wanted - capacity) * (size_t)info->block_size;
    if (heap_is_oversubscribed() && heap_passes_on(h, cls) && !budget_allows_passed(h, more))
        return;
    if (budget_allows(h, more) && set_capacity(h, cls, wanted))
        hk_count(magazine_grows);
}

/* Takes the block on top; the magazine is not empty. */
static void *pop(heap_t *h, unsigned cls) {
    hk_assert(heap_magazine_count(h, cls) > 0 && h->front.magazines[cls].top != 0);
    magazine_t *magazine = &h->front.magazines[cls];
    granule_t granule = magazine->top, *below = magazine->below, next = *below;
    hk_write(magazine->below, below - 1);
    hk_write_release(magazine->top, next); /* as in front_pop */
    map_set_live(granule);
    return map_granule_address(granule);
}

/* --- Large classes ------------------------------------------------------------------------------------------------ */

void *magazine_take_large(heap_t *h, unsigned cls) {
    hk_assert(cls >= HK_CLASS_COUNT && cls < HK_MAGAZINE_COUNT);
    return heap_magazine_count(h, cls) > 0 ? pop(h, cls) : NULL;
}

static HK_COLD void forget_asked(heap_t *h) {
    h->asked = 0;
    for (unsigned cls = class_of_mid(HK_EARNED_ABOVE); cls < HK_MAGAZINE_COUNT; cls++)
        h->class_stats[cls].events = 0;
}

HK_COLD bool magazine_is_earned(heap_t *h, unsigned cls) {
    hk_assert(cls < HK_MAGAZINE_COUNT);
    const bool may_be_served = hk_class_info[cls].block_size <= SLOT_CACHE_RUN_MAX * HK_SLOT_SIZE;
    if (may_be_served && ++h->asked == 0) /* such blocks alone bring no tick */
        forget_asked(h);
    const unsigned events = ++h->class_stats[cls].events;
    if (!may_be_served)
        return events >= EARNED_EVENTS_LONG;
    return events >= EARNED_EVENTS && events * EARNED_SHARE >= h->asked;
}

HK_COLD bool magazine_wants_large(heap_t *h, unsigned cls) {
    hk_assert(cls >= HK_CLASS_COUNT && cls < HK_MAGAZINE_COUNT);
    if (heap_magazine_capacity(h, cls) > 0)
        return true;
    if (!magazine_is_earned(h, cls) || hk_option(HK_OPT_ADAPT) == 0)
        return false;
    size_t most = hk_max(LARGE_BUDGET_BYTES, (size_t)hk_class_info[cls].block_size);
    unsigned capacity = hk_class_info[cls].magazine_max;
    if (h->magazine_bytes + capacity * (size_t)hk_class_info[cls].block_size > most)
        capacity = 1;
    if (h->magazine_bytes + capacity * (size_t)hk_class_info[cls].block_size > most)
        return false;
    return set_capacity(h, cls, capacity);
}

/* --- Alloc and free ----------------------------------------------------------------------------------------------- */

static unsigned refill(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    unsigned capacity = heap_magazine_capacity(h, cls), want = (capacity + 1) / 2;
    granule_t *blocks = h->class_stats[cls].array + 1;
    h->streak_bytes = h->streak_total = 0;
    if (h->has_swept) { /* in vain: it frees and allocates by turns */
        h->has_swept = false;
        h->sweep_shift = (uint8_t)hk_min(h->sweep_shift + 1, SWEEP_SHIFT_MAX);
    }
    heap_lock(h);
    unsigned got = want == 0 ? 0 : heap_take_locked(h, cls, blocks + want, want);
    double_frees_t double_frees = heap_take_double_frees_locked(h);
    stats->refilled += got;
    heap_count_taken_locked(h, cls, got);
    stats->refills++;
    if (got < want && got > 0)
        memmove(blocks, blocks + want - got, got * sizeof *blocks);
    if (got > 0)
        set_count(h, cls, got);
    heap_unlock(h);
    heap_report_double_frees(h, &double_frees);
    return got;
}

/* Without memory for a magazine a block comes straight from a slab. */
static void *alloc_without_magazine(heap_t *h, unsigned cls) {
    block_past_t past;
    return heap_take_one(h, cls, &past);
}

void *magazine_alloc(heap_t *h, unsigned cls) {
    if (heap_magazine_count(h, cls) > 0)
        return pop(h, cls);
    note_event(h, cls);
    if (heap_magazine_capacity(h, cls) == 0)
        return alloc_without_magazine(h, cls);
    return refill(h, cls) > 0 ? pop(h, cls) : NULL;
}

/* Calls `act` for each magazine that has a capacity, from a word of them on. */
static void for_each_magazine_from(heap_t *h, unsigned word, void (*act)(heap_t *, unsigned)) {
    for (; word < sizeof h->magazines_in_use / sizeof h->magazines_in_use[0]; word++)
        for (uint64_t bits = h->magazines_in_use[word]; bits != 0; bits &= bits - 1)
            act(h, word * 64 + hk_ctz64(bits));
}

static void for_each_magazine(heap_t *h, void (*act)(heap_t *, unsigned)) { for_each_magazine_from(h, 0, act); }

/* Gives all that the magazine holds back. */
static void empty(heap_t *h, unsigned cls) {
    unsigned count = (unsigned)heap_magazine_count(h, cls);
    if (count > 0)
        magazine_flush(h, cls, count);
}

static HK_COLD void drop(heap_t *h, unsigned cls) {
    empty(h, cls);
    (void)set_capacity(h, cls, 0);
}

/* In a long streak of frees: what the magazine takes after this may stay when the thread goes to sleep. */
static HK_COLD void empty_and_shrink(heap_t *h, unsigned cls) {
    empty(h, cls);
    if (heap_magazine_capacity(h, cls) > LONG_STREAK_BLOCKS && hk_option(HK_OPT_ADAPT) != 0)
        (void)set_capacity(h, cls, LONG_STREAK_BLOCKS);
}

/* Makes room in a full magazine, or leaves none: the block then goes straight to its slab. A thread that frees on and
 * on without an allocation in between may go to sleep next; what its magazines hold nobody else could give back. */
static void make_room(heap_t *h, unsigned cls) {
    if (hk_read(h->front.countdown) != h->streak_countdown)
        h->streak_bytes = h->streak_total = 0;
    const heap_press_t press = heap_press();
    bool on_streak = h->streak_bytes > 0;
    if (!on_streak)
        note_event(h, cls);
    unsigned count = (unsigned)heap_magazine_count(h, cls);
    if (count > 0 && count == heap_magazine_capacity(h, cls)) {
        magazine_flush(h, cls, on_streak ? count : (count + 1) / 2);
        h->streak_bytes += (size_t)count * hk_class_info[cls].block_size;
    }
    if (on_streak && h->streak_bytes >= (press != HEAP_ROOM ? 1 : (size_t)SWEEP_BYTES << h->sweep_shift)) {
        bool is_long = h->streak_total >= LONG_STREAK_BYTES;
        for_each_magazine(h, press == HEAP_HEAVILY ? drop : is_long ? empty_and_shrink : empty);
        h->streak_bytes = 1;
        h->has_swept = true;
    }
    h->streak_countdown = hk_read(h->front.countdown);
}

void magazine_free(heap_t *h, unsigned cls, void *block) {
    hk_assert(block != NULL && cls < HK_MAGAZINE_COUNT);
    magazine_t *magazine = &h->front.magazines[cls];
    if (magazine->below == magazine->last && cls < HK_CLASS_COUNT)
        make_room(h, cls);
    if (magazine->below == magazine->last)
        magazine_give_one(h, cls, block);
    else
        magazine_push(magazine, map_granule(block));
}

/* --- When the thread is over, and now and then -------------------------------------------------------------------- */

HK_COLD void magazine_drop_all(heap_t *h) { for_each_magazine(h, drop); }

_Static_assert(SWEEP_BYTES << SWEEP_SHIFT_MAX == LONG_STREAK_BYTES, "the longest distance");
_Static_assert(HK_CLASS_COUNT == HK_MAP_CLASS_LARGE && HK_CLASS_COUNT % 64 == 0,
               "magazines of runs have words of their own");

HK_COLD void magazine_drop_large(heap_t *h) { for_each_magazine_from(h, HK_MAP_CLASS_LARGE / 64, drop); }

static HK_COLD void retire(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    stats->events = stats->idle_ticks = stats->still_ticks = 0;
    if (heap_is_oversubscribed() || heap_magazine_capacity(h, cls) > RETIRED_SLOTS)
        drop(h, cls);
    else
        empty(h, cls);
}

HK_COLD void magazine_retire_all(heap_t *h) {
    for_each_magazine(h, retire);
    h->sweep_shift = 0;
    h->has_swept = false;
}

/* Between two arrays: none, and its blocks are lost. Between two steps of malloc or free: a block on top that does not
 * count is lost. */
static void mend(heap_t *h, unsigned cls) {
    magazine_t *magazine = &h->front.magazines[cls];
    if (magazine->below == NULL || magazine->last == NULL) {
        magazine->below = magazine->last = h->class_stats[cls].array = NULL;
        magazine->top = 0;
        return;
    }
    if (heap_magazine_count(h, cls) == 0)
        magazine->top = 0;
    h->magazines_in_use[cls / 64] |= UINT64_C(1) << (cls % 64);
    h->magazine_bytes += heap_magazine_capacity(h, cls) * (size_t)hk_class_info[cls].block_size;
}

HK_COLD void magazine_mend(heap_t *h) {
    memset(h->magazines_in_use, 0, sizeof h->magazines_in_use);
    h->magazine_bytes = 0;
    for (unsigned cls = 0; cls < HK_MAGAZINE_COUNT; cls++)
        mend(h, cls);
}

/* Malloc would take the block on top of an empty magazine, and look for the next one below the array. */
HK_COLD bool magazine_is_between(const heap_t *h) {
    for (unsigned cls = 0; cls < HK_MAGAZINE_COUNT; cls++)
        if (heap_magazine_count(h, cls) == 0 && hk_read(h->front.magazines[cls].top) != 0)
            return true;
    return false;
}

static void shrink(heap_t *h, unsigned cls, unsigned wanted) {
    unsigned count = (unsigned)heap_magazine_count(h, cls);
    if (count > wanted)
        magazine_flush(h, cls, count - wanted);
    if (set_capacity(h, cls, wanted))
        hk_count(magazine_shrinks);
}

/* Whether the thread is to keep what it frees of others, which it then hands out: where blocks go from thread to thread
 * anyhow. Where few do, each that is kept goes round in this thread for ever, and shares a line of live bits with
 * blocks of its owner's: both wait for it at every turn. When oversubscribed all are kept: the owner may wait for a
 * processor, and the blocks that are sent to it wait too. Smaller blocks share words, which their owner sets by plain
 * stores: now and then a bit would be lost, for which free looks everywhere. */
static bool circulates(unsigned cls, uint64_t of_others, uint64_t allocated) {
    return cls >= HK_MAP_CLASS_APART && (heap_is_oversubscribed() || of_others * CIRCULATES_SHARE >= allocated);
}

static HK_COLD void tick_class_locked(heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    heap_class_stats_t *stats = &h->class_stats[cls];
    uint64_t count = heap_magazine_count(h, cls), pops = heap_pops(h, cls, count);
    uint16_t seen = (uint16_t)(count ^ stats->flushes << 13);
    bool used = pops != stats->seen_pops, still = !used && seen == stats->seen;
    uint16_t remote = (uint16_t)hk_read(stats->freed_remote), of_others = (uint16_t)(remote - stats->seen_remote);
    stats->circulates = used && circulates(cls, of_others, pops - stats->seen_pops);
    stats->seen_remote = remote;
    stats->seen_pops = pops;
    stats->events = 0;
    stats->seen = seen;
    stats->idle_ticks = used || stats->idle_ticks == UINT8_MAX ? 0 : (uint8_t)(stats->idle_ticks + 1);
    stats->still_ticks = !still || stats->still_ticks == UINT8_MAX ? 0 : (uint8_t)(stats->still_ticks + 1);
}

/* A class that is only freed may be in the second half of a swing: it gives back half of its capacity. One that is not
 * used at all gives back everything: a few blocks that were freed at random keep as many slabs from emptying as many
 * do. */
static HK_COLD void shrink_if_idle(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    unsigned half = heap_magazine_capacity(h, cls) / 2;
    bool still = stats->still_ticks >= STILL_TICKS_BEFORE_DROP;
    if (!still && stats->idle_ticks < IDLE_TICKS_BEFORE_SHRINK)
        return;
    stats->idle_ticks = stats->still_ticks = 0;
    shrink(h, cls, still || half < hk_class_info[cls].magazine_min ? 0 : half);
}

HK_COLD void magazine_tick(heap_t *h) {
    heap_lock(h);
    for_each_magazine(h, tick_class_locked);
    forget_asked(h);
    heap_unlock(h);
    if (hk_option(HK_OPT_ADAPT) != 0)
        for_each_magazine(h, shrink_if_idle);
}
