/* SPDX-License-Identifier: MIT */
#include "superslab/scatter.h"

#include "base/bits.h"
#include "core/random.h"

#include <stdatomic.h>

enum {
    GROUP = 64, /* superslabs of which one is drawn: few enough that their records lie together */
    DRAWS = 8,  /* of places that may be in use, before the lowest is taken */
};

static _Atomic bool is_stirred; /* relaxed: the child of a fork has one thread when it is written */
static hk_random_t numbers;     /* guarded by hk_superslab_lock */

unsigned pool_draw_locked(unsigned bound) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(bound > 0 && bound <= 256);
    if (hk_option(HK_OPT_SAFE) < 2)
        return 0;
    if (!atomic_load_explicit(&is_stirred, memory_order_relaxed)) {
        /* First the word: a fork in between, by a signal handler, leaves it false in the child. */
        atomic_store_explicit(&is_stirred, true, memory_order_relaxed);
        hk_random_stir(&numbers);
    }
    return hk_random_below(&numbers, bound);
}

unsigned pool_draw_bit_locked(uint32_t mask) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(mask != 0);
    for (unsigned passed = pool_draw_locked(hk_popcount32(mask)); passed > 0; passed--)
        mask &= mask - 1;
    return hk_ctz64(mask);
}

/* The first of an aligned group of superslabs of which one at least is nobody's. The region goes on behind it, if need
 * be: then the rest of the group can be had. */
static size_t open_group_locked(void) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    size_t group = hk_align_down(region_lowest_free(), GROUP);
    if (region_frontier() >= group + GROUP)
        return group;
    bool has_first = region_alloc_at(group, 1);
    size_t behind = region_alloc(1, GROUP);
    if (behind != 0)
        region_release(behind, 1);
    if (has_first)
        region_release(group, 1);
    return group;
}

size_t pool_claim_locked(size_t count, size_t align) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    unsigned left = count == 1 && align == 1 && pool_scatters() ? DRAWS : 0;
    size_t group = left > 0 ? open_group_locked() : 0;
    for (; left > 0; left--) {
        size_t index = group + pool_draw_locked(GROUP);
        if (region_alloc_at(index, 1))
            return index;
    }
    return region_alloc(count, align);
}

void scatter_after_fork(void) { atomic_store_explicit(&is_stirred, false, memory_order_relaxed); }
