/* SPDX-License-Identifier: MIT */
#include "superslab/scatter.h"

#include "core/random.h"

#include <stdatomic.h>

static _Atomic bool is_stirred; /* relaxed: the child of a fork has one thread when it is written */
static hk_random_t numbers;     /* guarded by hk_superslab_lock */

unsigned pool_draw_locked(unsigned bound) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(bound > 0 && bound <= 256);
    if (!pool_scatters())
        return 0;
    if (!atomic_load_explicit(&is_stirred, memory_order_relaxed))
        hk_random_stir(&numbers);
    atomic_store_explicit(&is_stirred, true, memory_order_relaxed);
    return hk_random_below(&numbers, bound);
}

void scatter_after_fork(void) { atomic_store_explicit(&is_stirred, false, memory_order_relaxed); }
