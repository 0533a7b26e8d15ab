/* SPDX-License-Identifier: MIT */
#include "region/region.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/options.h"
#include "core/panic.h"
#include "region/index.h"
#include "region/places.h"
#include "sys/sys.h"

enum {
    CLAIM_STEP_MAX = 32, /* superslabs claimed ahead at the most: 64 MiB */
    CLAIM_SHARE = 8,     /* ... and no more than this part of what is in use */
    SHORT_WAY = 64,      /* superslabs that are stepped over and not forgotten */
    LOOKS_SHIFT = 6,     /* the last looks for a hole lie so many a window apart: 256 GiB */
};

hk_lock_t hk_region_lock = HK_LOCK_INIT(HK_RANK_REGION);

/* Guarded by hk_region_lock. */
static size_t frontier = 1;

int region_init(void) {
    if (hk_window.base != 0)
        return 0; /* found before, by who failed later */
    scarce_init();
    size_t first;
    bool tight = region_is_tight();
    int error = places_find(&first);
    /* What the search was refused may be addresses that there are not: that is no lack of memory. */
    atomic_store_explicit(&hk_scarce_tight, tight, memory_order_relaxed);
    if (error != 0)
        return error;
    frontier = first;
    index_init((index_word_t *)hk_window.areas[REGION_AREA_STATE]);
    return 0;
}

/* A new mapping knows nothing of what was asked for the one before it. Where the kernel makes huge pages of its own
 * accord it must be told not to; it is told anyway, as to ask it takes 26 us at each start. */
static int mapped(int error, void *address, size_t size) {
    if (error != 0)
        return error;
    sys_name(address, size, "hakmem-heap");
    if (hk_option(HK_OPT_HUGE) != HK_HUGE_FORCE)
        (void)sys_advise_no_huge(address, size);
    return 0;
}

int region_map_at(void *address, size_t size) {
    hk_assert(size > 0 && ((uintptr_t)address | size) % sys_page_size() == 0);
    return mapped(sys_map_blocks_at(address, size), address, size);
}

int region_map_over(void *address, size_t size) {
    hk_assert(size > 0 && ((uintptr_t)address | size) % sys_page_size() == 0);
    return mapped(sys_map_blocks_over(address, size), address, size);
}

/* --- Claiming ----------------------------------------------------------------------------------------------------- */

/* False at the limit of mappings: they stay mapped, and so FREE, as their pages are zero already (REGION-2). */
static bool unclaim_locked(size_t first, size_t count, index_kind_t kind) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    hk_assert(first > 0 && count > 0);
    bool done = sys_unmap(region_superslab_address(first), count << HK_SUPERSLAB_SHIFT);
    index_set(first, count, done ? kind : INDEX_FREE);
    if (done)
        scarce_released(count << HK_SUPERSLAB_SHIFT);
    return done;
}

/* Unmaps every superslab that is FREE, as far as the kernel does. False when none was. */
static bool shed_locked(void) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    bool any = false;
    for (size_t first, end = 1; index_next_run(&first, &end, frontier, INDEX_FREE);)
        any |= unclaim_locked(first, end - first, INDEX_UNCLAIMED);
    return any;
}

static int cover_state_locked(size_t from, size_t to) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    hk_assert(from <= to);
    return region_area_cover_part(REGION_AREA_STATE, index_begin_bytes(from), index_end_bytes(to));
}

/* Maps [first, first + count), which becomes FREE. Returns 0 or an errno value. */
static int claim_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    hk_assert(first > 0 && count > 0);
    size_t size = count << HK_SUPERSLAB_SHIFT;
    int error = cover_state_locked(first, first + count);
    if (error == 0)
        error = region_map_at(region_superslab_address(first), size);
    if (error != 0)
        return error;
    index_set(first, count, INDEX_FREE);
    scarce_claimed(size);
    hk_count(map_calls);
    return 0;
}

/* claim_locked for superslabs that are needed now: what lies free elsewhere goes before memory is out. */
static int claim_needed_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    int error = claim_locked(first, count);
    if (error != ENOMEM)
        return error;
    scarce_refused(count << HK_SUPERSLAB_SHIFT);
    return shed_locked() ? claim_locked(first, count) : error;
}

/* --- The frontier ------------------------------------------------------------------------------------------------- */

static bool is_inside(size_t first, size_t count) {
    return first <= hk_window.superslab_max && hk_window.superslab_max - first >= count;
}

/* Claims `count` superslabs at `start`, more when the heap is large. */
static int extend_locked(size_t start, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    hk_assert(is_inside(start, count) && count > 0);
    size_t used = region_claimed_bytes() >> HK_SUPERSLAB_SHIFT, ahead = hk_min(used / CLAIM_SHARE, CLAIM_STEP_MAX);
    size_t step = hk_min(region_is_tight() ? count : hk_max(count, ahead), hk_window.superslab_max - start);
    int error = step > count ? claim_locked(start, step) : EEXIST;
    if (error != 0)
        error = claim_needed_locked(start, step = count);
    if (error == 0)
        frontier = start + step;
    return error;
}

/* extend_locked further on: what is left out in front of it becomes UNCLAIMED. */
static int extend_behind_locked(size_t start, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    hk_assert(start >= frontier);
    size_t from = frontier;
    int error = start > from ? cover_state_locked(from, start) : 0;
    if (error == 0)
        error = extend_locked(start, count);
    if (error == 0 && start > from)
        index_set(from, start - from, INDEX_UNCLAIMED);
    return error;
}

/* Somebody is in the way of a long run. Short ones may find room before: as far as can be found by halves, it becomes
 * UNCLAIMED. */
static void keep_room_locked(size_t most) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    for (size_t count = hk_min(most / 2, hk_window.superslab_max - frontier); count > 0; count /= 2)
        if (claim_locked(frontier, count) == 0) {
            (void)unclaim_locked(frontier, count, INDEX_UNCLAIMED);
            frontier += count;
            return;
        }
}

/* Of a short way, each superslab is worth a look later. */
static int extend_further_locked(size_t distance, size_t count, size_t align) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    size_t start = hk_align_up(frontier + distance, align);
    if (!is_inside(start, count))
        return EEXIST;
    return start - frontier <= SHORT_WAY ? extend_behind_locked(start, count) : extend_locked(start, count);
}

/* Looks 1, 2, 4, ... superslabs further, then anywhere in what is left of the window, at ever smaller distances. */
static int step_over_locked(size_t count, size_t align) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    int error = EEXIST;
    keep_room_locked(count);
    size_t left = hk_window.superslab_max - frontier;
    for (size_t distance = 1; distance < left && error == EEXIST; distance *= 2)
        error = extend_further_locked(distance, count, align);
    for (size_t step = left / 2; step > hk_window.superslab_max >> LOOKS_SHIFT; step /= 2)
        for (size_t distance = step; distance < left && error == EEXIST; distance += 2 * step)
            error = extend_further_locked(distance, count, align);
    return error;
}

/* The window has no room ahead: what was somebody else's may be free by now. */
static int look_again_locked(size_t count, size_t align) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    for (size_t from, end = 1; index_next_run(&from, &end, frontier, INDEX_UNKNOWN);)
        for (size_t distance = 0; distance < end - from; distance = distance == 0 ? 1 : 2 * distance) {
            size_t start = hk_align_up(from + distance, align);
            int error = start + count <= end ? claim_needed_locked(start, count) : EEXIST;
            if (error != EEXIST)
                return error;
        }
    return EEXIST;
}

static bool grow_locked(size_t count, size_t align) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    size_t start = hk_align_up(frontier, align);
    int error = is_inside(start, count) ? extend_behind_locked(start, count) : EEXIST;
    if (error == EEXIST)
        error = step_over_locked(count, align);
    if (error == EEXIST)
        error = look_again_locked(count, align);
    return error == 0;
}

/* --- Taking ------------------------------------------------------------------------------------------------------- */

/* Somebody has mapped into [first, first + count): the superslab where becomes UNKNOWN, what comes before it is
 * claimed. */
static int find_foreign_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    hk_assert(count > 0);
    while (count > 1) {
        int error = claim_locked(first, count / 2);
        if (error != 0 && error != EEXIST)
            return error;
        first += error == 0 ? count / 2 : 0;
        count = error == 0 ? count - count / 2 : count / 2;
    }
    index_set(first, 1, INDEX_UNKNOWN);
    return EEXIST;
}

/* Claims what is UNCLAIMED in [first, first + count). */
static int claim_rest_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    int error = 0;
    for (size_t at, end = first; error == 0 && index_next_run(&at, &end, first + count, INDEX_UNCLAIMED);) {
        error = claim_locked(at, end - at);
        if (error == EEXIST)
            error = find_foreign_locked(at, end - at);
    }
    return error;
}

static int cover_records_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    static const region_area_t areas[] = {REGION_AREA_TABLE, REGION_AREA_LIVE, REGION_AREA_SUPERSLABS,
                                          REGION_AREA_SLABS};
    int error = 0;
    for (size_t i = 0; i < sizeof areas / sizeof areas[0] && error == 0; i++)
        error = area_cover_superslabs(areas[i], first, count);
    return error;
}

static int ready_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    int error = claim_rest_locked(first, count);
    return error == 0 ? cover_records_locked(first, count) : error;
}

/* [first, first + count), which is available, becomes USED, or is nobody's as before. What lies free elsewhere goes
 * before memory is out. */
static int take_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    hk_assert(first > 0 && count > 0);
    int error = ready_locked(first, count);
    if (error == ENOMEM) {
        scarce_refused(count << HK_SUPERSLAB_SHIFT);
        error = shed_locked() ? ready_locked(first, count) : error;
    }
    if (error == 0)
        index_set(first, count, INDEX_USED);
    else if (region_is_tight())
        (void)shed_locked();
    return error;
}

/* First fit in address order, below the frontier. */
static size_t find_locked(size_t count, size_t align) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    hk_assert(count > 0 && hk_is_pow2(align));
    size_t first = index_find(1, frontier, count);
    while (first != hk_align_up(first, align))
        first = index_find(hk_align_up(first, align), frontier, count);
    return first;
}

/* Where the records of these superslabs would be, somebody else has mapped: those that are nobody's become UNKNOWN, and
 * the frontier comes behind them. */
static void give_up_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    size_t limit = hk_min(first + count, hk_window.superslab_max), known = hk_min(limit, frontier);
    for (size_t at, end = first; index_next_run(&at, &end, known, INDEX_FREE);)
        if (!unclaim_locked(at, end - at, INDEX_UNKNOWN))
            index_set(at, end - at, INDEX_UNKNOWN); /* mapped for good, rather than found again */
    for (size_t at, end = first; index_next_run(&at, &end, known, INDEX_UNCLAIMED);)
        index_set(at, end - at, INDEX_UNKNOWN);
    if (limit > frontier && cover_state_locked(frontier, limit) == 0)
        frontier = limit;
}

size_t region_alloc(size_t count, size_t align) {
    hk_assert(count > 0 && hk_is_pow2(align));
    size_t first = 0;
    int error = EEXIST;
    hk_lock(&hk_region_lock);
    for (size_t skip = 1; error == EEXIST && skip < hk_window.superslab_max;) {
        first = find_locked(count, align);
        if (first == 0 && grow_locked(count, align))
            first = find_locked(count, align);
        if (first == 0)
            break;
        error = take_locked(first, count);
        if (error == EEXIST && index_end(first, first + count, INDEX_AVAILABLE) == first + count) {
            give_up_locked(first, hk_max(count, skip));
            skip *= 2;
        }
    }
    hk_unlock(&hk_region_lock);
    return error == 0 ? first : 0;
}

/* Maps `size` bytes of the superslab, which becomes USED: it is never FREE, as what is FREE is mapped as a whole. */
static int take_part_locked(size_t index, size_t size) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    hk_assert(index > 0 && size > 0 && size < HK_SUPERSLAB_SIZE);
    char *start = region_superslab_address(index);
    int error = cover_state_locked(index, index + 1);
    if (error == 0)
        error = region_map_at(start, size);
    if (error != 0)
        return error;
    error = cover_records_locked(index, 1);
    if (error != 0) {
        sys_unmap(start, size);
        return error;
    }
    index_set(index, 1, INDEX_USED);
    frontier = hk_max(frontier, index + 1);
    scarce_claimed(size);
    hk_count(map_calls);
    return 0;
}

/* In the first place that is nobody's, or 1, 2, 4, ... superslabs further on. Returns where, or 0. */
static size_t find_part_locked(size_t size) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    int error = EEXIST;
    for (size_t distance = 0; error == EEXIST;) {
        size_t below = find_locked(1, 1), index = below != 0 ? below : frontier + distance;
        error = is_inside(index, 1) ? take_part_locked(index, size) : ENOMEM;
        if (error == 0)
            return index;
        if (below != 0 && error == EEXIST)
            index_set(below, 1, INDEX_UNKNOWN);
        else
            distance = distance == 0 ? 1 : 2 * distance;
    }
    return 0;
}

size_t region_alloc_part(size_t least, size_t *slot_count) {
    size_t index = 0;
    hk_lock(&hk_region_lock);
    (void)shed_locked();
    for (size_t count = HK_SLOTS_PER_SUPERSLAB; index == 0 && count / 2 > 0 && count > least;) {
        count = hk_max(count / 2, least);
        index = find_part_locked(count << HK_SLOT_SHIFT);
        if (index == 0)
            scarce_refused(count << HK_SLOT_SHIFT);
        *slot_count = count;
    }
    hk_unlock(&hk_region_lock);
    return index;
}

bool region_map_slots(size_t index, unsigned first, unsigned count) {
    size_t size = (size_t)count << HK_SLOT_SHIFT;
    hk_lock(&hk_region_lock);
    bool done = region_map_at(region_superslab_address(index) + ((size_t)first << HK_SLOT_SHIFT), size) == 0;
    if (done)
        scarce_claimed(size);
    hk_count(map_calls);
    hk_unlock(&hk_region_lock);
    return done;
}

static uint32_t unmap_slots_locked(size_t index, uint32_t mask) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    uint32_t gone = mask;
    for (uint64_t left = mask; left != 0;) {
        unsigned at = hk_ctz64(left), length = hk_ctz64(~(left >> at));
        char *start = region_superslab_address(index) + ((size_t)at << HK_SLOT_SHIFT);
        if (!sys_unmap(start, (size_t)length << HK_SLOT_SHIFT))
            gone &= ~(uint32_t)(hk_low_mask64(length) << at);
        left &= ~hk_low_mask64(at + length);
    }
    scarce_released((size_t)hk_popcount64(gone) << HK_SLOT_SHIFT);
    return gone;
}

uint32_t region_unmap_slots(size_t index, uint32_t mask) {
    hk_lock(&hk_region_lock);
    uint32_t gone = unmap_slots_locked(index, mask);
    hk_unlock(&hk_region_lock);
    return gone;
}

void region_release_part(size_t index, uint32_t mask) {
    hk_lock(&hk_region_lock);
    bool gone = unmap_slots_locked(index, mask) == mask;
    index_set(index, 1, gone ? INDEX_UNCLAIMED : INDEX_UNKNOWN); /* what is mapped in part is not FREE */
    hk_unlock(&hk_region_lock);
}

static bool alloc_at_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_region_lock));
    size_t limit = first + count, known = hk_min(limit, frontier);
    if (first > frontier || !is_inside(first, count) || index_end(first, known, INDEX_AVAILABLE) != known)
        return false;
    if (limit > frontier && extend_locked(frontier, limit - frontier) != 0)
        return false;
    return take_locked(first, count) == 0;
}

bool region_alloc_at(size_t first, size_t count) {
    hk_lock(&hk_region_lock);
    bool done = alloc_at_locked(first, count);
    hk_unlock(&hk_region_lock);
    return done;
}

bool region_may_serve(size_t index) {
    hk_lock(&hk_region_lock);
    bool free = index > 0 && index < hk_window.superslab_max &&
                (index >= frontier || index_next(index, index + 1, INDEX_AVAILABLE) == index);
    hk_unlock(&hk_region_lock);
    return free;
}

bool region_has(size_t index) {
    hk_lock(&hk_region_lock);
    bool has = index > 0 && index < frontier &&
               (index_next(index, index + 1, INDEX_USED) == index || index_next(index, index + 1, INDEX_FREE) == index);
    hk_unlock(&hk_region_lock);
    return has;
}

size_t region_lowest_free(void) {
    hk_lock(&hk_region_lock);
    size_t first = find_locked(1, 1);
    first = first != 0 ? first : frontier;
    hk_unlock(&hk_region_lock);
    return first;
}

void region_release(size_t first, size_t count) {
    hk_lock(&hk_region_lock);
    hk_assert(index_end(first, first + count, INDEX_USED) == first + count);
    if (region_is_tight())
        (void)unclaim_locked(first, count, INDEX_UNCLAIMED);
    else
        index_set(first, count, INDEX_FREE);
    hk_unlock(&hk_region_lock);
}

void region_relieve(bool even_if_plenty) {
    hk_lock(&hk_region_lock);
    if (even_if_plenty || region_is_tight())
        (void)shed_locked();
    hk_unlock(&hk_region_lock);
}

size_t region_next_used(size_t from) {
    hk_lock(&hk_region_lock);
    size_t index = index_next(from, frontier, INDEX_USED);
    index = index < frontier ? index : 0;
    hk_unlock(&hk_region_lock);
    return index;
}

size_t region_frontier(void) {
    hk_lock(&hk_region_lock);
    size_t value = frontier;
    hk_unlock(&hk_region_lock);
    return value;
}

bool region_check(void) {
    hk_lock(&hk_region_lock);
    bool right = index_check(frontier);
    hk_unlock(&hk_region_lock);
    return right;
}
