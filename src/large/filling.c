/* SPDX-License-Identifier: MIT */
#include "large/filling.h"

#include "base/bits.h"
#include "core/options.h"
#include "core/panic.h"
#include "map/map.h"
#include "superslab/residency.h"
#include "superslab/superslab.h"

enum {
    LOOK_MAX = 16,     /* superslabs of a run that are looked at */
    LOOK_GAP_MAX = 7,  /* runs that pass unseen between two looks, where runs of such sizes are not filled */
    EXPECT_AFRESH = 8, /* of the runs expected to be filled, one in so many is taken without */
};
#define SMALLEST (2 * HK_SUPERSLAB_SIZE)

/* Hints, so no order between them matters. */
static _Atomic size_t filled_bytes; /* the largest run of two or more in a row that were filled */
static _Atomic size_t filled_row; /* the largest run since one was looked at that was not filled; 0: none was filled */
static _Atomic unsigned expected_count;
static _Atomic unsigned passed_count; /* runs that were not looked at, since one was, */
static _Atomic unsigned look_gap;     /* ... and how many are to pass */
static _Atomic uint64_t newest;       /* run of small pages that nobody has looked at, as run_of makes it; 0: none */
static _Atomic uint64_t looked_at;    /* run that was looked at last, and may be again; or 0 */

static uint64_t run_of(const char *start, size_t size) {
    hk_assert(map_slot(start) < map_count());
    return (uint64_t)map_slot(start) << 32 | size >> HK_SLOT_SHIFT;
}

static void forget(_Atomic uint64_t *which, uint64_t run) {
    (void)atomic_compare_exchange_strong_explicit(which, &run, 0, memory_order_relaxed, memory_order_relaxed);
}

void filling_remember(const char *start, size_t size) {
    if (size < SMALLEST)
        return;
    forget(&looked_at, run_of(start, size));
    atomic_store_explicit(&newest, run_of(start, size), memory_order_relaxed);
}

static bool is_known(size_t size) { return size / 2 <= atomic_load_explicit(&filled_bytes, memory_order_relaxed); }

/* Where runs are not filled, each look that finds it so doubles the number of runs until the next, to one in eight. */
static bool is_due(size_t size) {
    if (is_known(size))
        return true;
    unsigned passed = atomic_fetch_add_explicit(&passed_count, 1, memory_order_relaxed);
    return passed >= atomic_load_explicit(&look_gap, memory_order_relaxed);
}

static void look_rarer(bool rarer) {
    unsigned gap = atomic_load_explicit(&look_gap, memory_order_relaxed);
    atomic_store_explicit(&look_gap, rarer ? (unsigned)hk_min(2 * gap + 1, LOOK_GAP_MAX) : 0, memory_order_relaxed);
    atomic_store_explicit(&passed_count, 0, memory_order_relaxed);
}

/* One run tells little of others, so two in a row must be filled. `again`: it is the run that was looked at last. */
static void learn(size_t size, size_t full, size_t some, bool again) {
    hk_assert(size >= SMALLEST);
    size_t known = atomic_load_explicit(&filled_bytes, memory_order_relaxed);
    bool filled = full > 0 && some <= 1; /* one is where the filling ended */
    size_t row = atomic_load_explicit(&filled_row, memory_order_relaxed), most = hk_max(row, size);
    if (filled && !again && row != 0 && most > known)
        atomic_store_explicit(&filled_bytes, most, memory_order_relaxed);
    else if (some > 1 && size / 2 < known)
        atomic_store_explicit(&filled_bytes, size / 4, memory_order_relaxed);
    if (filled || some > 1)
        atomic_store_explicit(&filled_row, filled ? most : 0, memory_order_relaxed);
    look_rarer(!filled);
}

void filling_observe(const char *start, size_t size) {
    uint64_t run = run_of(start, size);
    forget(&newest, run);
    if (size < SMALLEST || hk_option(HK_OPT_HUGE) != HK_HUGE_AUTO || !is_due(size))
        return;
    const char *from = (const char *)hk_align_up((uintptr_t)start, HK_SUPERSLAB_SIZE);
    size_t count = (size_t)(start + size - from) >> HK_SUPERSLAB_SHIFT;
    size_t step = count > LOOK_MAX ? count / LOOK_MAX : 1, full = 0, some = 0;
    for (size_t i = 0; i < count && some <= 1; i += step) {
        const char *at = from + (i << HK_SUPERSLAB_SHIFT);
        if (superslab_view(map_slot(at) / HK_SLOTS_PER_SUPERSLAB).huge)
            continue; /* resident as a whole, which proves nothing */
        residency_t share = residency_of(at, HK_SUPERSLAB_SIZE);
        full += share == RESIDENCY_FULL;
        some += share == RESIDENCY_SOME;
    }
    learn(size, full, some, atomic_exchange_explicit(&looked_at, run, memory_order_relaxed) == run);
}

/* A program that frees nothing can be seen filling, too. The run may be gone by now: then it is a hint that says
 * little. */
static void look_at_newest(size_t size) {
    uint64_t run = atomic_load_explicit(&newest, memory_order_relaxed);
    size_t bytes = (size_t)(uint32_t)run << HK_SLOT_SHIFT;
    if (bytes != 0 && bytes >= size / 2)
        filling_observe(map_slot_address((slot_t)(run >> 32)), bytes);
}

bool filling_expected(size_t size) {
    if (size < SMALLEST)
        return false;
    if (!is_known(size))
        look_at_newest(size);
    if (!is_known(size))
        return false;
    return atomic_fetch_add_explicit(&expected_count, 1, memory_order_relaxed) % EXPECT_AFRESH != EXPECT_AFRESH - 1;
}
