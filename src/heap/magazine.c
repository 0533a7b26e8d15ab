/* SPDX-License-Identifier: MIT
 *
 * magazine.c: between the magazines and the slabs: refill, flush, and capacities that follow the load.
 *
 * A refill fills half of the capacity, a flush empties half, so that a program that swings around a level touches the
 * slabs once in capacity / 2 calls. Capacity starts small and doubles when a class refills or flushes twice within one
 * tick (4 MiB allocated); a class that is not used for a few ticks gives all its blocks back.
 */
#include "heap/heap.h"

#include "core/counters.h"
#include "core/options.h"
#include "core/panic.h"
#include "heap/fork.h"
#include "heap/hardened.h"
#include "heap/life.h"
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
    DOUBLED_MAX = 4,    /* double frees remembered for the report of one flush */
    PREFETCH_AHEAD = 8,
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

typedef struct flush_report {
    void *doubled[DOUBLED_MAX];
    unsigned count;
} flush_report_t;

static void note_doubled(flush_report_t *report, slab_t *slab, unsigned word, uint64_t bits) {
    size_t size = hk_class_info[slab->cls].block_size;
    for (; bits != 0 && report->count < DOUBLED_MAX; bits &= bits - 1)
        report->doubled[report->count++] = slab_base(slab) + (word * 64 + hk_ctz64(bits)) * size;
}

/* Whether there is a table to gather other heaps' blocks in. */
static bool gathers(const heap_t *h) { return h != heap_pool() && !hardened_is_on(); }

/* A block of another heap's slab goes to its owner; in company if it can. */
static void give_to_owner(heap_t *h, slab_t *slab, unsigned index, flush_report_t *report) {
    const remote_entry_t word = {heap_remote_key(slab_base(slab), index), UINT64_C(1) << (index % 64)};
    if (gathers(h) ? !heap_remote_note(h, slab_base(slab), slab->cls, index) : heap_remote_give(&word) != 0)
        note_doubled(report, slab, index / 64, word.bits);
}

/* False when the slab that the block was of is gone: its bit was freed twice, and the slab closed in between. */
static bool is_still(const slab_t *slab, unsigned cls) {
    return atomic_load_explicit(&slab->state, memory_order_relaxed) == SLAB_OPEN && slab->cls == cls;
}

static HK_NOINLINE void give_elsewhere(heap_t *h, unsigned cls, granule_t granule, flush_report_t *report) {
    void *block = map_granule_address(granule);
    slab_t *slab = slab_of(block, cls);
    if (is_still(slab, cls))
        give_to_owner(h, slab, class_block_index(&hk_classes[cls], block), report);
    else if (report->count < DOUBLED_MAX)
        report->doubled[report->count++] = block;
}

/* Gives back the leading blocks that lie in the slab at `base`; the first one does. Returns how many. */
HK_INLINE unsigned give_slab_locked(slab_t *slab, granule_t base, size_class_t c, const granule_t *blocks,
                                    unsigned count, flush_report_t *report) {
    uint64_t *free_bits = slab->free_bits;
    uint64_t offset = (blocks[0] - base) << HK_GRANULE_SHIFT;
    unsigned doubled = 0, i = 0;
    do {
        unsigned index = (unsigned)(((unsigned __int128)offset * c.inverse) >> 64);
        uint64_t bit = UINT64_C(1) << (index % 64), before = free_bits[index / 64];
        free_bits[index / 64] = before | bit;
        if (hk_unlikely((before & bit) != 0)) {
            note_doubled(report, slab, index / 64, bit);
            doubled++;
        }
        if (++i == count)
            break;
        offset = (blocks[i] - base) << HK_GRANULE_SHIFT;
    } while (offset <= c.mask);
    slab_count_given(slab, i - doubled);
    return i;
}

/* What is in a magazine lies in the window. As the lock is held, what the map says of the heap's own slabs stays true. Blocks
 * of other heaps' slabs are left over, as the first of `blocks`; returns how many. */
static unsigned give_blocks_locked(heap_t *h, unsigned cls, granule_t *blocks, unsigned count, flush_report_t *report) {
    const size_class_t c = hk_classes[cls];
    const uint32_t own = h->front.tag | cls;
    const size_t first_slot = ~((size_t)hk_class_info[cls].slab_slots - 1);
    hk_assert(count > 0);
    unsigned left = 0;
    granule_t ahead = blocks[count - 1];
    for (unsigned i = 0; i < count;) {
        granule_t block = blocks[i];
        slab_t *slab = slab_at((slot_t)(map_granule_slot(block) & first_slot));
        if (i + PREFETCH_AHEAD < count)
            ahead = blocks[i + PREFETCH_AHEAD];
        __builtin_prefetch(slab_at((slot_t)(map_granule_slot(ahead) & first_slot)), 1);
        if (hk_unlikely(map_entry(map_granule_slot(block)) != own)) {
            blocks[left++] = block;
            i++;
            continue;
        }
        i += give_slab_locked(slab, block & ~((granule_t)c.mask >> HK_GRANULE_SHIFT), c, blocks + i, count - i, report);
        if (slab->free_count >= slab->settle_at)
            heap_settle_locked(h, slab);
    }
    return left;
}

/* The `count` blocks that have been in the magazine longest leave it; they lie in the array behind what remains,
 * until the next push. They leave before they go: their owners may hand them out at once, and who looks for a block
 * in all magazines must not find it here then. For that the count needs no order of its own: whoever gets a block
 * has it through its owner's lock, through the push and the exchange of a message, or through the run cache's lock,
 * and sees what came before. Where more remain than leave, the latest of them come first. */
static granule_t *leave_locked(heap_t *h, unsigned cls, unsigned count) {
    bin_t *bin = &h->front.bins[cls];
    granule_t *array = h->class_stats[cls].array;
    unsigned rest = (unsigned)heap_bin_count(h, cls) - count;
    if (rest == 0) {
        granule_t top = bin->top;
        hk_write(bin->below, array - 1);
        /* Release: for a child whose fork took no lock, a block that is counted lies on top. */
        hk_write_release(bin->top, 0);
        hk_write(array[0], top); /* until the next push or refill */
        return array;
    }
    unsigned in_array = rest - 1, swaps = count < in_array ? count : in_array; /* the one on top stays there */
    granule_t *oldest = array + 1, *newest = oldest + in_array + count - swaps;
    for (unsigned i = 0; i < swaps; i++) {
        granule_t leaves = oldest[i];
        hk_write(oldest[i], newest[i]);
        hk_write(newest[i], leaves);
    }
    /* Release: pairs with the acquire in is_in_magazine. */
    hk_write_release(bin->below, array + rest - 1);
    return oldest + in_array;
}

static void give_all_elsewhere(heap_t *h, unsigned cls, const granule_t *blocks, unsigned count,
                               flush_report_t *report) {
    for (unsigned i = 0; i < count; i++)
        give_elsewhere(h, cls, blocks[i], report);
}

static void report_doubled(const flush_report_t *report, unsigned cls) {
    for (unsigned i = 0; i < report->count; i++)
        hk_misuse("double free of", report->doubled[i], NULL, "%u-byte block, free", hk_class_info[cls].block_size);
}

/* Runs leave the magazine for the heap's run cache. */
static void give_runs(heap_t *h, unsigned cls, const granule_t *blocks, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        void *block = map_granule_address(blocks[i]);
        /* Whoever frees it a second time takes its tag away. */
        if (map_lookup(block) == (h->front.tag | cls) && large_is_live(block)) {
            large_tag(block, HK_OWNER_NONE, 0);
            (void)large_free(&h->large, block);
        } else {
            hk_misuse("double free of", block, NULL, "large block, free");
        }
    }
}

/* Double frees that were found under the lock, where no report may be made. */
static doubled_t take_doubled_locked(heap_t *h) {
    doubled_t doubled = h->doubled;
    h->doubled = (doubled_t){0};
    return doubled;
}

static void report_taken(const heap_t *h, const doubled_t *doubled) {
    if (hk_likely(doubled->count == 0))
        return;
    if (doubled->block != NULL)
        hk_misuse("double free of", doubled->block, NULL,
                  "%u-byte block, one of %u, found when other threads' frees came in", doubled->block_size,
                  doubled->count);
    else
        hk_misuse("double free in", h, NULL, "heap %u, %u blocks, found when other threads' frees came in", h->front.id,
                  doubled->count);
}

/* Gives the `count` blocks that have been in the magazine longest back to their slabs. */
static void flush(heap_t *h, unsigned cls, unsigned count) {
    flush_report_t report = {.count = 0};
    heap_lock(h);
    granule_t *blocks = leave_locked(h, cls, count);
    unsigned left = cls < HK_CLASS_COUNT ? give_blocks_locked(h, cls, blocks, count, &report) : 0;
    h->class_stats[cls].flushed += count;
    h->class_stats[cls].flushes++;
    heap_count_freed_locked(h, cls, count - left); /* of the others their owners count */
    doubled_t doubled = take_doubled_locked(h);
    heap_unlock(h);
    if (cls >= HK_CLASS_COUNT)
        give_runs(h, cls, blocks, count);
    give_all_elsewhere(h, cls, blocks, left, &report);
    heap_remote_post_much(h);
    h->run_total += count * (size_t)hk_class_info[cls].block_size;
    /* Frees wind the countdown too, so that a thread that only frees has its ticks. */
    h->front.countdown -= (int64_t)count * (int64_t)hk_min(hk_class_info[cls].block_size, HEAP_TICK_MID_BYTES);
    if (hk_unlikely(report.count > 0))
        report_doubled(&report, cls);
    report_taken(h, &doubled);
    heap_memory_freed(h);
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

static unsigned refill(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    unsigned capacity = heap_bin_capacity(h, cls), want = (capacity + 1) / 2;
    granule_t *blocks = h->class_stats[cls].array + 1;
    heap_adopt_orphan();
    h->run_bytes = h->run_total = 0;
    heap_lock(h);
    unsigned got = want == 0 ? 0 : heap_take_locked(h, cls, blocks + want, want);
    doubled_t doubled = take_doubled_locked(h);
    stats->refilled += got;
    heap_count_taken_locked(h, cls, got);
    stats->refills++;
    if (got < want && got > 0)
        memmove(blocks, blocks + want - got, got * sizeof *blocks);
    if (got > 0)
        set_count(h, cls, got);
    heap_unlock(h);
    report_taken(h, &doubled);
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

void magazine_give_one(heap_t *h, unsigned cls, void *block) {
    flush_report_t report = {.count = 0};
    granule_t granule = map_granule(block);
    if (cls >= HK_CLASS_COUNT)
        give_runs(h, cls, &granule, 1);
    heap_lock(h);
    unsigned left = cls < HK_CLASS_COUNT ? give_blocks_locked(h, cls, &granule, 1, &report) : 0;
    hk_add(h->front.bins[cls].pushes, 1);
    h->class_stats[cls].flushed++;
    heap_count_freed_locked(h, cls, 1 - left);
    if (!gathers(h)) /* else it counts with the table */
        h->posted_bytes += left * (size_t)hk_class_info[cls].block_size;
    bool much = heap_posted_much(h);
    heap_unlock(h);
    give_all_elsewhere(h, cls, &granule, left, &report);
    if (hk_unlikely(report.count > 0))
        report_doubled(&report, cls);
    if (much)
        heap_memory_freed_much(); /* the owners may be asleep */
    else
        heap_memory_freed(h);
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
        flush(h, cls, count);
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
        flush(h, cls, runs ? count : (count + 1) / 2);
        h->run_bytes += (size_t)count * hk_class_info[cls].block_size;
    }
    if (runs && h->run_bytes >= (crowded ? 1 : SWEEP_BYTES)) {
        for_each_bin(h, crowded ? drop : h->run_total >= LONG_RUN_BYTES ? empty_and_shrink : empty);
        h->run_bytes = 1;
    }
    h->run_countdown = h->front.countdown;
}

void magazine_free(heap_t *h, unsigned cls, void *block) {
    if (hk_unlikely(h == NULL || !fork_attend()))
        return; /* a stranded process loses it */
    bin_t *bin = &h->front.bins[cls];
    if (bin->below == bin->last) {
        if (cls < HK_CLASS_COUNT)
            make_room(h, cls);
        if (bin->below == bin->last) {
            magazine_give_one(h, cls, block);
            return;
        }
    }
    bin_push(bin, map_granule(block));
    if (h->front.countdown < 0) {
        heap_tick(h);
        h->run_countdown = h->front.countdown;
    }
}

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
        flush(h, cls, count - wanted);
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
