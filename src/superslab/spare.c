/* SPDX-License-Identifier: MIT */
#include "superslab/spare.h"

#include "core/panic.h"
#include "superslab/bins.h"

void pool_take_spare_locked(slot_t first, size_t count, slots_spare_t *spare) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(first != 0 && count > 0);
    superslab_t *s = pool_record((first + count - 1) / SLOTS);
    const uint32_t free = pool_shared_mask(s), dirty = free & s->dirty_mask;
    uint32_t mask = dirty != 0 ? dirty : free;
    if (hk_popcount32(mask) > spare->most) /* those behind the run, which it may grow into */
        mask &= (uint32_t)(hk_low_mask64(spare->most) << (first + count) % SLOTS);
    spare->superslab = pool_index(s);
    spare->mask = mask;
    if (mask != 0) /* what a huge page brought along reads as zeros too, but is resident */
        spare->fresh = pool_take_locked(s, mask) && dirty == 0;
}
