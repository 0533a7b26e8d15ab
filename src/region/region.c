/* SPDX-License-Identifier: MIT */
#include "region/region.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/options.h"
#include "sys/sys.h"

#include <stdatomic.h>

enum {
    STATE_UNCLAIMED = 0,
    STATE_FREE,
    STATE_USED,
    STATE_FOREIGN,
};

enum {
    WINDOW_TRIES = 8,
    CLAIM_STEP_MAX = 32, /* superslabs claimed ahead at the most: 64 MiB */
    CLAIM_SHARE = 8,     /* ... and no more than this part of what is in use */
    FOREIGN_SKIP_MAX = 4096,
    START_SPREAD = 64,     /* the first superslab used is one of these */
    HEAP_AREA_SHARE = 256, /* the heaps' area is this part of the window */
    META_AREA_SHARE = 64,
};

#define WINDOW_SUPERSLABS_MAX ((size_t)1 << 23) /* 16 TiB */
#define WINDOW_SUPERSLABS_MIN ((size_t)1 << 9)  /* 1 GiB */
#define WINDOW_LOWEST         ((uintptr_t)1 << 41)
#define WINDOW_RANDOM_SPAN    ((uintptr_t)1 << 45)
#define WINDOW_ALIGN          HK_GIB
#define AREA_STEP             (64 * HK_KIB)
#define AREA_SMALL            (512 * HK_KIB) /* of the areas that may use huge pages, what comes before the first */
#define AREA_SMALL_LIVE       HK_MIB         /* ... of live bits: those of the first 128 MiB */

region_window_t hk_window;
hk_lock_t hk_region_lock = HK_LOCK_INIT(HK_RANK_REGION);

/* Guarded by hk_region_lock; the byte counts are also read without it. */
static size_t frontier = 1;
static size_t lowest_free = 1;
static _Atomic size_t claimed_count;
static _Atomic size_t claimed_peak;
static _Atomic size_t area_committed[REGION_AREA_COUNT];
static bool tight;
static bool advise_no_huge;
static _Atomic bool huge_records; /* written by who grows the heap, read by who grows an area */

_Static_assert(START_SPREAD *(HK_SUPERSLAB_SIZE / 128) <= HK_SUPERSLAB_SIZE - AREA_SMALL_LIVE, "area_offset has room");

static uint8_t *states(void) { return (uint8_t *)hk_window.areas[REGION_AREA_STATE]; }

/* Bytes of each area per superslab; the heaps' and meta areas are shares of the window. */
static const size_t area_bytes_per_superslab[REGION_AREA_COUNT] = {
    [REGION_AREA_STATE] = 1,
    [REGION_AREA_TABLE] = HK_SLOTS_PER_SUPERSLAB * 4,
    [REGION_AREA_LIVE] = HK_SUPERSLAB_SIZE / 128,
    [REGION_AREA_SUPERSLABS] = 64,
    [REGION_AREA_SLABS] = HK_SLOTS_PER_SUPERSLAB * 128,
    [REGION_AREA_HEAPS] = HK_SUPERSLAB_SIZE / HEAP_AREA_SHARE,
    [REGION_AREA_META] = HK_SUPERSLAB_SIZE / META_AREA_SHARE,
};

/* Slab records, bitmaps and live bits are 1.3 % of a heap of small blocks: a page fault in five if they had small pages only. */
static bool may_be_huge(int area) {
    return area == REGION_AREA_SLABS || area == REGION_AREA_META || area == REGION_AREA_LIVE;
}

/* Where an area begins behind a border of a huge page, never on one, so that the next border comes after what is to have small
 * pages. Live bits are used from those of the first superslab on. */
static size_t area_offset(int area, size_t first_superslab) {
    if (!may_be_huge(area))
        return 0;
    if (area != REGION_AREA_LIVE)
        return HK_SUPERSLAB_SIZE - AREA_SMALL;
    size_t unused = hk_align_down((first_superslab - 1) * area_bytes_per_superslab[area], AREA_STEP);
    return HK_SUPERSLAB_SIZE - AREA_SMALL_LIVE - unused;
}

/* One page where address 0 would have its live bits: below the areas, in a large window among the last superslabs, which end there. */
static void find_live_origin(void) {
    uintptr_t base = hk_window.base;
    hk_window.live_origin =
        hk_window.areas[REGION_AREA_LIVE] - base / HK_SUPERSLAB_SIZE * area_bytes_per_superslab[REGION_AREA_LIVE];
    if (REGION_HAS_LIVE_ORIGIN && hk_window.live_origin > base)
        hk_window.superslab_max = hk_min(hk_window.superslab_max, (hk_window.live_origin - base) >> HK_SUPERSLAB_SHIFT);
}

/* Lays the areas out behind the superslabs, of which the first used is `first`; returns the size of the whole window. */
static size_t window_lay_out(uintptr_t base, size_t superslab_max, size_t first) {
    hk_window.base = base;
    hk_window.superslab_max = superslab_max;
    uintptr_t at = base + (superslab_max << HK_SUPERSLAB_SHIFT);
    for (int area = 0; area < REGION_AREA_COUNT; area++) {
        hk_window.areas[area] = at + area_offset(area, first);
        hk_window.area_sizes[area] = hk_align_up(superslab_max * area_bytes_per_superslab[area], HK_SUPERSLAB_SIZE);
        at += hk_window.area_sizes[area] + HK_SUPERSLAB_SIZE;
    }
    find_live_origin();
    return at - base;
}

/* The window is usable when its first superslab, the state area and the place for address 0 can be claimed. */
static bool window_try(uintptr_t base, size_t superslab_max, size_t first) {
    window_lay_out(base, superslab_max, first);
    bool among_areas =
        hk_window.live_origin >= hk_window.areas[0] && hk_window.live_origin < hk_window.areas[REGION_AREA_COUNT - 1];
    if (REGION_HAS_LIVE_ORIGIN && (among_areas || hk_window.superslab_max < superslab_max / 2))
        return false;
    void *pieces[] = {(void *)hk_window.areas[REGION_AREA_STATE], region_superslab_address(1),
                      (void *)hk_window.live_origin};
    unsigned claimed = 0, wanted = REGION_HAS_LIVE_ORIGIN ? 3 : 2;
    while (claimed < wanted && sys_map_at(pieces[claimed], AREA_STEP) == 0)
        claimed++;
    for (unsigned i = 0; i < claimed; i++)
        if (claimed < wanted || i == 1)
            sys_unmap(pieces[i], AREA_STEP);
    if (claimed < wanted)
        return false;
    atomic_store_explicit(&area_committed[REGION_AREA_STATE], AREA_STEP, memory_order_relaxed);
    return true;
}

/* A hole that the kernel knows of: for tools and kernels with an unusual address space (Valgrind, 39-bit aarch64). */
static bool window_from_kernel(void) {
    for (size_t count = WINDOW_SUPERSLABS_MAX; count >= WINDOW_SUPERSLABS_MIN; count /= 2) {
        size_t size = window_lay_out(0, count, frontier) + WINDOW_ALIGN;
        void *hole = sys_map_none(size);
        if (hole == NULL)
            continue;
        sys_unmap(hole, size);
        if (window_try(hk_align_up((uintptr_t)hole, WINDOW_ALIGN), count, frontier))
            return true;
    }
    return false;
}

int region_init(void) {
    tight = sys_address_space_limit() != SIZE_MAX;
    advise_no_huge = hk_option(HK_OPT_HUGE) != HK_HUGE_FORCE && sys_huge_pages_unasked();
    for (int i = 0; i < WINDOW_TRIES && !HK_TSAN; i++) {
        uint64_t random = 0;
        sys_random(&random, sizeof random);
        uintptr_t base = WINDOW_LOWEST + hk_align_down((uintptr_t)random % WINDOW_RANDOM_SPAN, WINDOW_ALIGN);
        size_t first = 1 + (size_t)(random >> 58) % START_SPREAD;
        if (window_try(base, WINDOW_SUPERSLABS_MAX, first)) {
            frontier = lowest_free = first;
            return 0;
        }
    }
    return window_from_kernel() ? 0 : ENOMEM;
}

static void count_claimed(size_t count) {
    size_t now = atomic_fetch_add_explicit(&claimed_count, count, memory_order_relaxed) + count;
    if (now > atomic_load_explicit(&claimed_peak, memory_order_relaxed))
        atomic_store_explicit(&claimed_peak, now, memory_order_relaxed);
    hk_count(map_calls);
}

/* A new mapping knows nothing of what was asked for the one before it. */
static int mapped(int error, void *address, size_t size) {
    if (error == 0 && advise_no_huge)
        (void)sys_advise_no_huge(address, size);
    return error;
}

int region_map_at(void *address, size_t size) { return mapped(sys_map_at(address, size), address, size); }

int region_map_over(void *address, size_t size) { return mapped(sys_map_over(address, size), address, size); }

/* Maps [first, first + count) and marks it FREE. Returns 0 or an errno value. */
static int claim_locked(size_t first, size_t count) {
    int error = region_map_at(region_superslab_address(first), count << HK_SUPERSLAB_SHIFT);
    if (error == ENOMEM)
        tight = true; /* a limit that came later, or memory is out */
    if (error != 0)
        return error;
    for (size_t i = 0; i < count; i++)
        states()[first + i] = STATE_FREE;
    count_claimed(count);
    return 0;
}

static bool advance_frontier_locked(size_t count) {
    if (count > hk_window.superslab_max - frontier || region_area_cover(REGION_AREA_STATE, frontier + count) != 0)
        return false;
    frontier += count;
    return true;
}

/* Claims at least `count` superslabs at the frontier, more when the heap is large. Pieces that somebody else has mapped
 * are marked FOREIGN and stepped over. */
static bool grow_locked(size_t count, size_t align) {
    for (size_t skipped = 0; skipped < FOREIGN_SKIP_MAX;) {
        size_t start = hk_align_up(frontier, align);
        size_t used = atomic_load_explicit(&claimed_count, memory_order_relaxed);
        size_t step = hk_max(count, tight ? 1 : hk_min(used / CLAIM_SHARE, CLAIM_STEP_MAX));
        if (start > hk_window.superslab_max || hk_window.superslab_max - start < count)
            return false;
        step = hk_min(step, hk_window.superslab_max - start);
        if (region_area_cover(REGION_AREA_STATE, start + step) != 0)
            return false;
        int error = claim_locked(start, step);
        if (error == ENOMEM && step > count)
            error = claim_locked(start, step = count);
        if (error == 0)
            return advance_frontier_locked(start + step - frontier);
        if (error != EEXIST || !advance_frontier_locked(start + 1 - frontier))
            return false;
        states()[start] = STATE_FOREIGN;
        skipped++;
    }
    return false;
}

/* Length of the run of usable superslabs from `first`, at most `count`. */
static size_t usable_run_locked(size_t first, size_t count) {
    size_t length = 0;
    while (length < count && first + length < frontier && states()[first + length] <= STATE_FREE)
        length++;
    return length;
}

/* Claims what is UNCLAIMED in [first, first + count). */
static bool ensure_claimed_locked(size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++) {
        if (states()[i] == STATE_FREE)
            continue;
        int error = claim_locked(i, 1);
        if (error == EEXIST)
            states()[i] = STATE_FOREIGN;
        if (error != 0)
            return false;
    }
    return true;
}

static void take_locked(size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++) {
        hk_assert(states()[i] == STATE_FREE);
        states()[i] = STATE_USED;
    }
    if (first == lowest_free)
        lowest_free = first + count;
}

/* First fit in address order, below the frontier. */
static size_t find_locked(size_t count, size_t align) {
    size_t first = lowest_free;
    while (first < frontier && states()[first] > STATE_FREE)
        first++;
    lowest_free = first;
    first = hk_align_up(first, align);
    while (first + count <= frontier) {
        size_t run = usable_run_locked(first, count);
        if (run == count && ensure_claimed_locked(first, count))
            return first;
        first = hk_align_up(first + run + 1, align);
    }
    return 0;
}

size_t region_alloc(size_t count, size_t align) {
    hk_lock(&hk_region_lock);
    size_t first = find_locked(count, align);
    if (first == 0 && grow_locked(count, align))
        first = find_locked(count, align);
    if (first != 0)
        take_locked(first, count);
    hk_unlock(&hk_region_lock);
    return first;
}

bool region_alloc_at(size_t first, size_t count) {
    hk_lock(&hk_region_lock);
    if (first + count > frontier && first <= frontier && first + count - frontier <= hk_window.superslab_max - frontier)
        (void)grow_locked(first + count - frontier, 1);
    bool done = usable_run_locked(first, count) == count && ensure_claimed_locked(first, count);
    if (done)
        take_locked(first, count);
    hk_unlock(&hk_region_lock);
    return done;
}

bool region_may_serve(size_t index) {
    hk_lock(&hk_region_lock);
    bool free = index > 0 && index < hk_window.superslab_max && (index >= frontier || states()[index] <= STATE_FREE);
    hk_unlock(&hk_region_lock);
    return free;
}

void region_release(size_t first, size_t count) {
    hk_lock(&hk_region_lock);
    for (size_t i = first; i < first + count; i++) {
        hk_assert(states()[i] == STATE_USED);
        states()[i] = tight ? STATE_UNCLAIMED : STATE_FREE;
    }
    if (tight) {
        sys_unmap(region_superslab_address(first), count << HK_SUPERSLAB_SHIFT);
        atomic_fetch_sub_explicit(&claimed_count, count, memory_order_relaxed);
    }
    lowest_free = hk_min(lowest_free, first);
    hk_unlock(&hk_region_lock);
}

void region_earn_huge_records(bool earned) {
    if (earned != atomic_load_explicit(&huge_records, memory_order_relaxed))
        atomic_store_explicit(&huge_records, earned, memory_order_relaxed);
}

bool region_has_huge_records(void) { return atomic_load_explicit(&huge_records, memory_order_relaxed); }

/* Maps what comes behind the `committed` bytes of an area: some of it, or the whole of a huge page. Returns its size, 0 when
 * memory is out. */
static size_t area_extend(region_area_t area, size_t committed, size_t wanted) {
    uintptr_t from = hk_window.areas[area] + committed;
    size_t most = hk_align_up(from + 1, HK_SUPERSLAB_SIZE) - from;
    bool huge = most == HK_SUPERSLAB_SIZE && may_be_huge((int)area) && region_has_huge_records();
    /* Steps grow with the area, so that their number is logarithmic. */
    size_t step = huge ? most : hk_min(committed / 4, HK_SUPERSLAB_SIZE);
    size_t size = hk_align_up(hk_max(wanted, step), AREA_STEP);
    size = hk_min(size, hk_min(most, hk_window.area_sizes[area] - committed));
    hk_count(map_calls);
    if (sys_map_at((void *)from, size) != 0)
        return 0;
    if (huge && sys_advise_huge((void *)from, size) == 0)
        hk_count_by(huge_page_bytes, size);
    return size;
}

int region_area_cover(region_area_t area, size_t size) {
    size_t committed = atomic_load_explicit(&area_committed[area], memory_order_relaxed);
    if (hk_likely(size <= committed))
        return 0;
    if (size > hk_window.area_sizes[area])
        return ENOMEM;
    while (committed < size) {
        size_t more = area_extend(area, committed, size - committed);
        if (more == 0)
            return ENOMEM;
        committed += more;
        atomic_store_explicit(&area_committed[area], committed, memory_order_relaxed);
    }
    return 0;
}

size_t region_claimed_bytes(void) {
    return atomic_load_explicit(&claimed_count, memory_order_relaxed) << HK_SUPERSLAB_SHIFT;
}

size_t region_peak_bytes(void) {
    return atomic_load_explicit(&claimed_peak, memory_order_relaxed) << HK_SUPERSLAB_SHIFT;
}

size_t region_area_size(region_area_t area) {
    return atomic_load_explicit(&area_committed[area], memory_order_relaxed);
}

size_t region_area_bytes(void) {
    size_t sum = 0;
    for (int area = 0; area < REGION_AREA_COUNT; area++)
        sum += atomic_load_explicit(&area_committed[area], memory_order_relaxed);
    return sum;
}

size_t region_frontier(void) {
    hk_lock(&hk_region_lock);
    size_t value = frontier;
    hk_unlock(&hk_region_lock);
    return value;
}

bool region_is_tight(void) { return tight; }
