/* SPDX-License-Identifier: MIT */
#include "superslab/superslab.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/counters.h"
#include "core/options.h"
#include "core/print.h"
#include "region/region.h"
#include "sys/sys.h"

#include <string.h>

enum {
    ORDER_COUNT = 6, /* aligned runs of 1, 2, 4, 8, 16, 32 slots */
    SLOTS = HK_SLOTS_PER_SUPERSLAB,
    BIN_CLEAN = SLOTS + 1, /* empty superslabs without a dirty slot: used last, when all warm ones are */
    BIN_LIMIT,
    EMPTY_KEEP_MIN = 2,    /* clean empty superslabs kept for reuse */
    EMPTY_KEEP_SHARE = 16, /* ... and this part of those in use */
    PURGE_RANGES_MAX = 64,
    PURGE_WAIT_MS = 20,
    WARM_SCAN_MAX = 32,     /* superslabs looked at for a resident run */
    PREFAULT_SHARE = 256,   /* slots populated ahead are at most this part of those in use */
    HUGE_BORDERS_MAX = 600, /* each is one mapping more */
    HUGE_SHARE = 8,     /* a superslab asks for a huge page when it is at most this part of the heap, itself included */
    RECORDS_SHARE = 16, /* a huge page of records likewise */
};
#define ALL_SLOTS UINT32_MAX

hk_lock_t hk_superslab_lock = HK_LOCK_INIT(HK_RANK_SUPERSLAB);

/* Guarded by hk_superslab_lock. bins[use][order][rank], the rank being the number of free slots or BIN_CLEAN; bit rank of
 * bin_masks[use][order] says that the bin is not empty. */
static uint32_t bins[SLOTS_USES][ORDER_COUNT][BIN_LIMIT];
static uint64_t bin_masks[SLOTS_USES][ORDER_COUNT];
static uint32_t dirty_head, dirty_tail;
static size_t empty_count;
static int huge_borders;                  /* neighbours of which one is advised to use huge pages */
static size_t dirty_low;                  /* the least dirty_slot_count since it was last asked for */
static _Atomic size_t free_slot_count;    /* written under the lock, read without */
static _Atomic size_t purging_slot_count; /* ... taken out of the pool to be given back to the kernel */
static _Atomic size_t in_use_count;       /* written under the lock, read without */
static _Atomic size_t used_slot_count;    /* written by anybody */
static _Atomic uint32_t purging;          /* 1 while a purge holds slots; a futex */
static _Atomic size_t floor_slot_count;   /* option: written at start */
static _Atomic size_t dirty_slot_count;   /* written under the lock, read without */

static superslab_t *record(size_t index) { return (superslab_t *)hk_window.areas[REGION_AREA_SUPERSLABS] + index; }

static uint32_t index_of(const superslab_t *s) {
    return (uint32_t)(s - (superslab_t *)hk_window.areas[REGION_AREA_SUPERSLABS]);
}

static size_t in_use(void) { return atomic_load_explicit(&in_use_count, memory_order_relaxed); }

static void change_in_use(int by) {
    atomic_fetch_add_explicit(&in_use_count, (size_t)(ptrdiff_t)by, memory_order_relaxed);
}

static size_t used_slots(void) { return atomic_load_explicit(&used_slot_count, memory_order_relaxed); }

void slots_count_used(ptrdiff_t by) { atomic_fetch_add_explicit(&used_slot_count, (size_t)by, memory_order_relaxed); }

static slot_t first_slot(const superslab_t *s) { return index_of(s) * SLOTS; }

/* Masks of the aligned runs of 2^order free slots, marked at their first slot. */
static uint32_t aligned_runs(uint32_t mask, unsigned order) {
    static const uint32_t starts[ORDER_COUNT] = {~0u, 0x55555555u, 0x11111111u, 0x01010101u, 0x00010001u, 1u};
    for (unsigned k = 0; k < order; k++)
        mask &= mask >> (1u << k);
    return mask & starts[order];
}

static unsigned largest_order(uint32_t mask) {
    unsigned order = ORDER_COUNT - 1;
    while (order > 0 && aligned_runs(mask, order) == 0)
        order--;
    return order;
}

static slots_use_t use_of(const superslab_t *s) { return s->dense ? SLOTS_DENSE : SLOTS_SPARSE; }

static uint8_t rank_for(const superslab_t *s) {
    return s->free_mask == ALL_SLOTS && s->dirty_mask == 0 ? BIN_CLEAN : (uint8_t)hk_popcount64(s->free_mask);
}

static uint32_t *bin_of(const superslab_t *s) { return &bins[use_of(s)][s->order][s->rank]; }

static void unbin_locked(superslab_t *s) {
    if (!s->binned)
        return;
    if (s->previous != 0)
        record(s->previous)->next = s->next;
    else
        *bin_of(s) = s->next;
    if (s->next != 0)
        record(s->next)->previous = s->previous;
    if (*bin_of(s) == 0)
        bin_masks[use_of(s)][s->order] &= ~(UINT64_C(1) << s->rank);
    empty_count -= s->rank >= SLOTS;
    s->binned = false;
}

/* Puts the superslab into the bin that its free_mask says, or into none. */
static void rebin_locked(superslab_t *s) {
    unbin_locked(s);
    if (s->free_mask == 0)
        return;
    s->order = (uint8_t)largest_order(s->free_mask);
    s->rank = rank_for(s);
    uint32_t *head = bin_of(s);
    s->previous = 0;
    s->next = *head;
    if (*head != 0)
        record(*head)->previous = index_of(s);
    *head = index_of(s);
    bin_masks[use_of(s)][s->order] |= UINT64_C(1) << s->rank;
    empty_count += s->rank >= SLOTS;
    s->binned = true;
}

/* In the queue are the superslabs with dirty slots, the oldest first. */
static void queue_dirty_locked(superslab_t *s) {
    if (s->queued)
        return;
    s->queued = true;
    s->dirty_next = 0;
    s->dirty_previous = dirty_tail;
    if (dirty_tail != 0)
        record(dirty_tail)->dirty_next = index_of(s);
    else
        dirty_head = index_of(s);
    dirty_tail = index_of(s);
}

static void unqueue_locked(superslab_t *s) {
    if (s->dirty_previous != 0)
        record(s->dirty_previous)->dirty_next = s->dirty_next;
    else
        dirty_head = s->dirty_next;
    if (s->dirty_next != 0)
        record(s->dirty_next)->dirty_previous = s->dirty_previous;
    else
        dirty_tail = s->dirty_previous;
    s->queued = false;
}

/* The lock is held: one writer at a time. */
static void count_locked(_Atomic size_t *count, ptrdiff_t by) {
    size_t now = atomic_load_explicit(count, memory_order_relaxed) + (size_t)by;
    atomic_store_explicit(count, now, memory_order_relaxed);
}

static size_t count_of(const _Atomic size_t *count) { return atomic_load_explicit(count, memory_order_relaxed); }

static void count_dirty(uint32_t before, uint32_t after) {
    size_t change = hk_popcount64(after) - (size_t)hk_popcount64(before);
    atomic_fetch_add_explicit(&dirty_slot_count, change, memory_order_relaxed);
}

/* Takes the slots of `mask`; true when all of them read as zeros. */
static bool take_mask_locked(superslab_t *s, uint32_t mask) {
    hk_assert((s->free_mask & mask) == mask);
    bool zeroed = (s->dirty_mask & mask) == 0;
    uint32_t dirty_before = s->dirty_mask;
    s->free_mask &= ~mask;
    s->dirty_mask &= ~mask;
    count_dirty(dirty_before, s->dirty_mask);
    if (s->queued && s->dirty_mask == 0)
        unqueue_locked(s);
    dirty_low = hk_min(dirty_low, atomic_load_explicit(&dirty_slot_count, memory_order_relaxed));
    count_locked(&free_slot_count, -(ptrdiff_t)hk_popcount64(mask));
    rebin_locked(s);
    return zeroed;
}

static void give_mask_locked(superslab_t *s, uint32_t mask, bool dirty) {
    hk_assert((s->free_mask & mask) == 0);
    s->free_mask |= mask;
    count_locked(&free_slot_count, (ptrdiff_t)hk_popcount64(mask));
    if (dirty) {
        uint32_t dirty_before = s->dirty_mask;
        s->dirty_mask |= mask;
        count_dirty(dirty_before, s->dirty_mask);
        queue_dirty_locked(s);
    }
    rebin_locked(s);
}

static int cover_locked(size_t superslab_limit) {
    size_t slot_limit = superslab_limit * SLOTS;
    if (slot_limit <= map_count())
        return 0;
    if (region_area_cover(REGION_AREA_SUPERSLABS, superslab_limit * sizeof(superslab_t)) != 0 ||
        region_area_cover(REGION_AREA_SLABS, slot_limit * 128) != 0)
        return ENOMEM;
    return map_cover(slot_limit);
}

/* The kernel splits a mapping where advice changes: how many more such places there are when superslab `index` changes. */
static int borders_by_change(size_t index) {
    bool huge = record(index)->huge;
    int borders = record(index - 1)->huge == huge ? 1 : -1;
    bool above = (index + 1) * SLOTS < map_count() && record(index + 1)->huge;
    return borders + (above == huge ? 1 : -1);
}

/* Changes what the superslab is advised for, unless the mappings would become too many. Returns whether it may. */
static bool set_huge_locked(superslab_t *s, bool huge) {
    int borders = borders_by_change(index_of(s));
    if (s->huge == huge || (borders > 0 && huge_borders >= HUGE_BORDERS_MAX))
        return s->huge == huge;
    huge_borders += borders;
    s->huge = huge;
    return true;
}

/* True when a huge page is at most 1 / `share` of what is used and that page. */
static bool earns_huge(size_t share) {
    int64_t policy = hk_option(HK_OPT_HUGE);
    return policy == HK_HUGE_FORCE || (policy == HK_HUGE_AUTO && used_slots() >= (share - 1) * SLOTS);
}

static bool wants_huge(const superslab_t *s) {
    return (s->dense || hk_option(HK_OPT_HUGE) == HK_HUGE_FORCE) && earns_huge(HUGE_SHARE);
}

static void advise_huge_locked(superslab_t *s) {
    if (!wants_huge(s) || !set_huge_locked(s, true))
        return;
    if (sys_advise_huge(region_superslab_address(index_of(s)), HK_SUPERSLAB_SIZE) == 0)
        hk_count_by(huge_page_bytes, HK_SUPERSLAB_SIZE);
}

/* Huge pages for a long run that is expected to be filled: one call for all of it. */
static void advise_run_locked(size_t first, size_t count) {
    size_t done = 0;
    while (done < count && set_huge_locked(record(first + done), true))
        done++;
    if (done > 0 && sys_advise_huge(region_superslab_address(first), done << HK_SUPERSLAB_SHIFT) == 0)
        hk_count_by(huge_page_bytes, done << HK_SUPERSLAB_SHIFT);
}

/* A huge page too many, at its end, is then a small part of what is in use. */
static bool run_earns_huge(size_t superslabs, slots_use_t use) {
    return superslabs > 1 && use == SLOTS_DENSE && hk_option(HK_OPT_HUGE) != HK_HUGE_OFF &&
           in_use() + superslabs >= HUGE_SHARE;
}

/* For slots of which a program may touch a few pages only. Huge pages may stay where the borders are too many. */
static void advise_small_locked(superslab_t *s) {
    if (s->huge && !wants_huge(s) && set_huge_locked(s, false))
        (void)sys_advise_no_huge(region_superslab_address(index_of(s)), HK_SUPERSLAB_SIZE);
}

/* A record for a superslab that the pool did not know. Its mapping's advice outlives a superslab. */
static void reset_record_locked(superslab_t *s) { *s = (superslab_t){.in_use = true, .huge = s->huge}; }

/* Takes superslabs from the region and makes their records; `free_mask` of the last one is `tail_mask`. */
static slot_t open_superslabs_locked(size_t count, size_t align, uint32_t tail_mask, slots_use_t use) {
    region_earn_huge_records(earns_huge(RECORDS_SHARE));
    size_t first = region_alloc(count, align);
    if (first == 0)
        return 0;
    if (cover_locked(first + count) != 0) {
        region_release(first, count);
        return 0;
    }
    bool run_is_huge = run_earns_huge(count, use);
    for (size_t i = 0; i < count; i++) {
        superslab_t *s = record(first + i);
        reset_record_locked(s);
        s->dense = use == SLOTS_DENSE;
        change_in_use(1);
        if (run_is_huge)
            continue;
        advise_small_locked(s);
        advise_huge_locked(s);
    }
    if (run_is_huge)
        advise_run_locked(first, count);
    hk_count_by(superslabs_new, count);
    superslab_t *last = record(first + count - 1);
    if (tail_mask != 0)
        give_mask_locked(last, tail_mask, false);
    return (slot_t)(first * SLOTS);
}

static void close_superslab_locked(superslab_t *s) {
    unbin_locked(s);
    count_locked(&free_slot_count, -(ptrdiff_t)hk_popcount64(s->free_mask));
    s->free_mask = 0;
    s->in_use = false;
    change_in_use(-1);
    hk_count(superslabs_freed);
    region_release(index_of(s), 1);
}

/* An empty superslab serves either use. */
static superslab_t *convert_locked(slots_use_t use) {
    const uint32_t *empty = bins[use == SLOTS_DENSE ? SLOTS_SPARSE : SLOTS_DENSE][ORDER_COUNT - 1];
    uint32_t index = empty[SLOTS] != 0 ? empty[SLOTS] : empty[BIN_CLEAN];
    if (index == 0)
        return NULL;
    superslab_t *s = record(index);
    unbin_locked(s);
    s->dense = use == SLOTS_DENSE;
    if (!s->dense)
        advise_small_locked(s);
    if (!s->huge)
        advise_huge_locked(s);
    rebin_locked(s);
    return s;
}

/* The fullest superslab with an aligned run of 2^order slots; the smallest run that serves is broken first. */
static superslab_t *find_bin_locked(unsigned order, slots_use_t use) {
    for (unsigned u = use; u < SLOTS_USES; u++)
        for (unsigned k = order; k < ORDER_COUNT; k++)
            if (bin_masks[u][k] != 0)
                return record(bins[u][k][hk_ctz64(bin_masks[u][k])]);
    return convert_locked(use);
}

/* Of those that wait longest for a purge, a superslab with a resident run, whatever its use: the one whose largest run is
 * the smallest. */
static superslab_t *find_warm_locked(unsigned order) {
    superslab_t *best = NULL;
    unsigned best_order = ORDER_COUNT;
    uint32_t index = dirty_head;
    for (unsigned i = 0; index != 0 && i < WARM_SCAN_MAX; i++, index = record(index)->dirty_next) {
        superslab_t *s = record(index);
        if (aligned_runs(s->dirty_mask, order) != 0 && largest_order(s->dirty_mask) < best_order) {
            best = s;
            best_order = largest_order(s->dirty_mask);
        }
    }
    return best;
}

/* What is resident goes before what is not, or memory would grow while slots of the other use wait for their purge. A huge
 * page is resident as a whole. */
static superslab_t *find_locked(unsigned order, slots_use_t use) {
    superslab_t *s = find_bin_locked(order, use);
    if (s != NULL && (s->huge || aligned_runs(s->dirty_mask, order) != 0))
        return s;
    superslab_t *warm = find_warm_locked(order);
    return warm != NULL ? warm : s;
}

static slots_t alloc_within_locked(unsigned count, unsigned align, slots_use_t use) {
    unsigned order = hk_log2_ceil(hk_max(count, align));
    superslab_t *s = find_locked(order, use);
    if (s == NULL) {
        if (open_superslabs_locked(1, 1, ALL_SLOTS, use) == 0)
            return (slots_t){0};
        s = find_bin_locked(order, use);
    } else if (s->rank >= SLOTS) {
        hk_count(superslabs_reused);
    }
    uint32_t runs = aligned_runs(s->free_mask, order);
    /* Prefer a run whose pages are still resident. */
    uint32_t warm = aligned_runs(s->dirty_mask, order) & runs;
    unsigned at = hk_ctz64(warm != 0 ? warm : runs);
    bool zeroed = take_mask_locked(s, (uint32_t)hk_low_mask64(count) << at);
    return (slots_t){first_slot(s) + at, zeroed};
}

static slots_t alloc_across_locked(size_t count, size_t align, slots_use_t use) {
    size_t superslabs = (count + SLOTS - 1) / SLOTS;
    unsigned tail = (unsigned)(count % SLOTS);
    uint32_t tail_mask = tail == 0 ? 0 : ALL_SLOTS << tail;
    slot_t first = open_superslabs_locked(superslabs, hk_max(align / SLOTS, 1), tail_mask, use);
    return (slots_t){first, true};
}

slots_t slots_alloc(size_t count, size_t align, slots_use_t use) {
    hk_lock(&hk_superslab_lock);
    slots_t got = count <= SLOTS && align <= SLOTS ? alloc_within_locked((unsigned)count, (unsigned)align, use)
                                                   : alloc_across_locked(count, align, use);
    hk_unlock(&hk_superslab_lock);
    return got;
}

/* Slots [first, first + count) cut at superslab borders: the part in superslab `*index` as a mask. */
static uint32_t part_mask(slot_t first, size_t count, size_t *index, size_t *length) {
    unsigned at = first % SLOTS;
    *index = first / SLOTS;
    *length = hk_min(count, SLOTS - at);
    return (uint32_t)(hk_low_mask64((unsigned)*length) << at);
}

static bool take_part_locked(slot_t first, size_t index, uint32_t mask, bool *zeroed) {
    if (index < map_count() / SLOTS && record(index)->in_use) {
        superslab_t *s = record(index);
        if ((s->free_mask & mask) != mask)
            return false;
        *zeroed &= take_mask_locked(s, mask);
        return true;
    }
    if (first % SLOTS != 0 || !region_alloc_at(index, 1))
        return false;
    if (cover_locked(index + 1) != 0) {
        region_release(index, 1);
        return false;
    }
    superslab_t *s = record(index);
    reset_record_locked(s);
    change_in_use(1);
    if (mask != ALL_SLOTS)
        give_mask_locked(s, ~mask, false);
    return true;
}

static void free_part_locked(size_t index, uint32_t mask, bool dirty) {
    superslab_t *s = record(index);
    if (mask == ALL_SLOTS && !dirty) {
        close_superslab_locked(s);
        return;
    }
    give_mask_locked(s, mask, dirty);
    if (s->free_mask == ALL_SLOTS && s->dirty_mask == 0 &&
        empty_count > hk_max(EMPTY_KEEP_MIN, in_use() / EMPTY_KEEP_SHARE))
        close_superslab_locked(s);
}

bool slots_alloc_at(slot_t first, size_t count, bool *zeroed) {
    size_t done = 0, index, length;
    *zeroed = true;
    hk_lock(&hk_superslab_lock);
    while (done < count) {
        uint32_t mask = part_mask(first + (slot_t)done, count - done, &index, &length);
        if (!take_part_locked(first + (slot_t)done, index, mask, zeroed))
            break;
        done += length;
    }
    bool complete = done == count;
    for (size_t undone = 0; !complete && undone < done; undone += length) {
        uint32_t mask = part_mask(first + (slot_t)undone, done - undone, &index, &length);
        /* What was dirty before may be dirty still. */
        free_part_locked(index, mask, !*zeroed);
    }
    hk_unlock(&hk_superslab_lock);
    return complete;
}

/* Whole superslabs of a long run go straight back to the region, so their pages must go first. */
static void purge_long_run(slot_t first, size_t count) {
    slot_t from = (slot_t)hk_align_up(first, SLOTS);
    size_t whole = first + count > from ? hk_align_down(first + count - from, SLOTS) : 0;
    if (whole == 0)
        return;
    sys_purge(map_slot_address(from), whole << HK_SLOT_SHIFT);
    hk_count(purge_calls);
    hk_count_by(purged_bytes, whole << HK_SLOT_SHIFT);
}

static void free_run(slot_t first, size_t count, bool dirty, bool whole_purged) {
    size_t done = 0, index, length;
    hk_lock(&hk_superslab_lock);
    while (done < count) {
        uint32_t mask = part_mask(first + (slot_t)done, count - done, &index, &length);
        free_part_locked(index, mask, dirty && !(whole_purged && mask == ALL_SLOTS));
        done += length;
    }
    hk_unlock(&hk_superslab_lock);
}

void slots_free(slot_t first, size_t count, bool dirty) {
    bool whole_purged = count > SLOTS;
    if (whole_purged && dirty)
        purge_long_run(first, count);
    free_run(first, count, dirty, whole_purged);
}

void slots_free_for_reuse(slot_t first, size_t count) { free_run(first, count, true, false); }

size_t superslab_dirty_bytes(void) {
    return atomic_load_explicit(&dirty_slot_count, memory_order_relaxed) << HK_SLOT_SHIFT;
}

size_t superslab_waiting_bytes(void) {
    size_t dirty = count_of(&dirty_slot_count), floor = count_of(&floor_slot_count);
    return dirty > floor ? (dirty - floor) << HK_SLOT_SHIFT : 0;
}

size_t superslab_taken_bytes(void) {
    size_t clean = count_of(&free_slot_count), all = in_use() * SLOTS;
    clean -= hk_min(clean, atomic_load_explicit(&dirty_slot_count, memory_order_relaxed));
    clean += count_of(&purging_slot_count);
    return all > clean ? (all - clean) << HK_SLOT_SHIFT : 0;
}

/* One purge round: takes dirty slots out of the pool, at most PURGE_RANGES_MAX ranges. */
typedef struct purge_round {
    sys_range_t ranges[PURGE_RANGES_MAX];
    uint32_t superslabs[PURGE_RANGES_MAX];
    uint32_t masks[PURGE_RANGES_MAX];
    uint32_t broken[PURGE_RANGES_MAX]; /* superslabs that must have no huge pages from here on */
    size_t count, broken_count;
} purge_round_t;

/* All dirty slots of the superslab. */
static void collect_superslab_locked(purge_round_t *round, superslab_t *s) {
    /* With a huge page, slots came along that nobody has used yet. */
    if (s->huge && s->dirty_mask != 0) {
        count_dirty(s->dirty_mask, s->free_mask);
        s->dirty_mask = s->free_mask;
    }
    if (s->huge && s->dirty_mask != 0 && s->free_mask != ALL_SLOTS && set_huge_locked(s, false)) {
        round->broken[round->broken_count++] = index_of(s);
    }
    while (s->dirty_mask != 0 && round->count < PURGE_RANGES_MAX) {
        unsigned at = hk_ctz64(s->dirty_mask);
        unsigned length = hk_ctz64(~((uint64_t)s->dirty_mask >> at));
        uint32_t mask = (uint32_t)(hk_low_mask64(length) << at);
        round->ranges[round->count] =
            (sys_range_t){map_slot_address(first_slot(s) + at), (size_t)length << HK_SLOT_SHIFT};
        round->superslabs[round->count] = index_of(s);
        round->masks[round->count] = mask;
        round->count++;
        (void)take_mask_locked(s, mask);
        s->purging_mask |= mask;
        count_locked(&purging_slot_count, (ptrdiff_t)length);
    }
}

static void collect_locked(purge_round_t *round, size_t slot_count) {
    size_t floor = atomic_load_explicit(&floor_slot_count, memory_order_relaxed);
    size_t before = atomic_load_explicit(&dirty_slot_count, memory_order_relaxed);
    size_t asked = before - hk_min(before, slot_count), until = hk_max(floor, asked);
    while (dirty_head != 0 && round->count < PURGE_RANGES_MAX && round->broken_count < PURGE_RANGES_MAX &&
           count_of(&dirty_slot_count) > until) {
        superslab_t *s = record(dirty_head);
        if (hk_popcount64(s->dirty_mask) > count_of(&dirty_slot_count) - asked)
            return; /* what is more than was asked for would be taken again soon */
        collect_superslab_locked(round, s);
        if (s->dirty_mask != 0)
            return;
    }
}

static size_t return_locked(const purge_round_t *round) {
    size_t bytes = 0;
    for (size_t i = 0; i < round->count; i++) {
        bytes += round->ranges[i].size;
        record(round->superslabs[i])->purging_mask &= ~round->masks[i];
        count_locked(&purging_slot_count, -(ptrdiff_t)hk_popcount64(round->masks[i]));
        free_part_locked(round->superslabs[i], round->masks[i], false);
    }
    return bytes;
}

void superslab_after_fork(void) {
    if (atomic_load_explicit(&purging, memory_order_relaxed) == 0)
        return;
    hk_lock(&hk_superslab_lock);
    for (size_t i = 1; i < map_count() / SLOTS; i++) {
        superslab_t *s = record(i);
        uint32_t mask = s->purging_mask;
        s->purging_mask = 0;
        if (mask != 0)
            give_mask_locked(s, mask, true);
    }
    atomic_store_explicit(&purging_slot_count, 0, memory_order_relaxed);
    hk_unlock(&hk_superslab_lock);
    atomic_store_explicit(&purging, 0, memory_order_relaxed);
}

bool superslab_wait_purge(void) {
    uint32_t now = atomic_load_explicit(&purging, memory_order_relaxed);
    if (now == 0)
        return false;
    sys_futex_wait(&purging, now, PURGE_WAIT_MS);
    return true;
}

/* Huge pages first, so that khugepaged does not fill the holes again. */
static void purge_round(const purge_round_t *round) {
    for (size_t i = 0; i < round->broken_count; i++)
        (void)sys_advise_no_huge(region_superslab_address(round->broken[i]), HK_SUPERSLAB_SIZE);
    hk_count_by(purge_calls, sys_purge_many(round->ranges, round->count));
}

size_t superslab_purge(size_t slot_count) {
    size_t total = 0;
    purge_round_t round;
    do {
        round.count = round.broken_count = 0;
        hk_lock(&hk_superslab_lock);
        collect_locked(&round, slot_count - (total >> HK_SLOT_SHIFT));
        if (round.count > 0)
            atomic_fetch_add_explicit(&purging, 1, memory_order_relaxed);
        hk_unlock(&hk_superslab_lock);
        if (round.count == 0)
            break;
        purge_round(&round);
        hk_lock(&hk_superslab_lock);
        size_t bytes = return_locked(&round);
        hk_unlock(&hk_superslab_lock);
        atomic_fetch_sub_explicit(&purging, 1, memory_order_relaxed);
        sys_futex_wake(&purging, INT32_MAX);
        hk_count_by(purged_bytes, bytes);
        total += bytes;
    } while (total >> HK_SLOT_SHIFT < slot_count);
    return total;
}

/* Those with dirty slots have to be purged first. */
void superslab_close_empty(void) {
    hk_lock(&hk_superslab_lock);
    for (unsigned use = 0; use < SLOTS_USES; use++)
        while (bins[use][ORDER_COUNT - 1][BIN_CLEAN] != 0)
            close_superslab_locked(record(bins[use][ORDER_COUNT - 1][BIN_CLEAN]));
    hk_unlock(&hk_superslab_lock);
}

size_t superslab_dirty_low(void) {
    hk_lock(&hk_superslab_lock);
    size_t low = dirty_low;
    dirty_low = atomic_load_explicit(&dirty_slot_count, memory_order_relaxed);
    hk_unlock(&hk_superslab_lock);
    return low;
}

bool superslab_make_small(size_t index, size_t free_bytes, unsigned share) {
    superslab_t *s = record(index);
    hk_lock(&hk_superslab_lock);
    bool huge = s->in_use && s->huge;
    free_bytes += (size_t)hk_popcount64(s->free_mask) << HK_SLOT_SHIFT;
    bool right = !huge || (free_bytes * share >= HK_SUPERSLAB_SIZE && set_huge_locked(s, false));
    hk_unlock(&hk_superslab_lock);
    if (huge && right)
        (void)sys_advise_no_huge(region_superslab_address(index), HK_SUPERSLAB_SIZE);
    return right;
}

void superslab_set_floor(size_t bytes) {
    atomic_store_explicit(&floor_slot_count, bytes >> HK_SLOT_SHIFT, memory_order_relaxed);
}

static void touch(char *from, size_t size) {
    size_t page = sys_page_size();
    for (size_t at = 0; at < size; at += page)
        ((volatile char *)from)[at] = 0;
}

void slots_prefault(slot_t first, size_t count) {
    size_t size = count << HK_SLOT_SHIFT;
    char *from = map_slot_address(first);
    int64_t policy = hk_option(HK_OPT_PREFAULT);
    /* A small share of what is in use, so that what is populated in vain stays small too. */
    bool ahead = policy == HK_PREFAULT_AUTO && used_slots() >= count * PREFAULT_SHARE;
    if (policy == HK_PREFAULT_OFF || (policy == HK_PREFAULT_AUTO && !ahead))
        return;
    if (policy == HK_PREFAULT_TOUCH || sys_populate(from, size) != 0) {
        if (policy == HK_PREFAULT_AUTO)
            return;
        touch(from, size);
    }
    hk_count_by(prefault_bytes, size);
}

superslab_totals_t superslab_totals(void) {
    hk_lock(&hk_superslab_lock);
    superslab_totals_t totals = {in_use(), count_of(&free_slot_count),
                                 atomic_load_explicit(&dirty_slot_count, memory_order_relaxed)};
    hk_unlock(&hk_superslab_lock);
    return totals;
}

superslab_view_t superslab_view(size_t index) {
    hk_lock(&hk_superslab_lock);
    const superslab_t *s = record(index);
    superslab_view_t view = {s->free_mask, s->dirty_mask, s->in_use, s->huge};
    hk_unlock(&hk_superslab_lock);
    return view;
}

static size_t check_one_locked(const superslab_t *s) {
    size_t bad = 0;
    bad += (s->dirty_mask & ~s->free_mask) != 0;
    bad += s->binned != (s->free_mask != 0);
    bad += s->binned && (s->order != largest_order(s->free_mask) || s->rank != rank_for(s));
    bad += (s->dirty_mask != 0) != s->queued;
    if (bad != 0)
        hk_message("check: superslab %u: free %x dirty %x binned %d queued %d", index_of(s), s->free_mask,
                   s->dirty_mask, s->binned, s->queued);
    return bad;
}

/* The bins and the dirty queue, walked: what they hold and what the records say must agree. */
static size_t check_lists_locked(size_t binned, size_t queued) {
    size_t bins_hold = 0, queue_holds = 0, limit = map_count() / SLOTS;
    for (unsigned use = 0; use < SLOTS_USES; use++)
        for (unsigned order = 0; order < ORDER_COUNT; order++)
            for (unsigned rank = 0; rank < BIN_LIMIT; rank++)
                for (uint32_t i = bins[use][order][rank]; i != 0 && bins_hold <= limit; i = record(i)->next)
                    bins_hold++;
    for (uint32_t i = dirty_head; i != 0 && queue_holds <= limit; i = record(i)->dirty_next)
        queue_holds++;
    if (bins_hold == binned && queue_holds == queued)
        return 0;
    hk_message("check: superslabs: %zu in bins, %zu flagged; %zu in the dirty queue, %zu flagged", bins_hold, binned,
               queue_holds, queued);
    return 1;
}

size_t superslab_check(void) {
    size_t bad = 0, free_seen = 0, used_seen = 0, binned = 0, queued = 0;
    hk_lock(&hk_superslab_lock);
    size_t limit = map_count() / SLOTS;
    for (size_t i = 1; i < limit; i++) {
        const superslab_t *s = record(i);
        queued += s->queued;
        binned += s->binned;
        if (!s->in_use)
            continue;
        used_seen++;
        free_seen += hk_popcount64(s->free_mask);
        bad += check_one_locked(s);
    }
    bad += check_lists_locked(binned, queued);
    if (free_seen != count_of(&free_slot_count) || used_seen != in_use()) {
        hk_message("check: superslabs in use %zu, counted %zu; free slots %zu, counted %zu", in_use(), used_seen,
                   count_of(&free_slot_count), free_seen);
        bad++;
    }
    hk_unlock(&hk_superslab_lock);
    return bad;
}
