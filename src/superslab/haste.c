/* SPDX-License-Identifier: MIT */
#include "superslab/haste.h"

#include "core/options.h"
#include "core/panic.h"
#include "sys/sys.h"

static haste_t haste; /* guarded by hk_superslab_lock */

size_t haste_allowance(void) {
    hk_lock(&hk_superslab_lock);
    size_t allowed = haste_allows(&haste, sys_now_ms());
    hk_unlock(&hk_superslab_lock);
    return allowed;
}

void superslab_went_in_haste(size_t bytes) {
    hk_lock(&hk_superslab_lock);
    haste_spend(&haste, bytes >> HK_SLOT_SHIFT);
    hk_unlock(&hk_superslab_lock);
}

void pool_regret_locked(superslab_t *s, uint32_t mask) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    int64_t delay = hk_option(HK_OPT_PURGE_DELAY);
    if ((uint32_t)sys_now_ms() - s->hasty_ms < (uint64_t)delay)
        haste_regret(&haste, hk_popcount32(s->hasty_mask & mask));
    s->hasty_mask &= ~mask;
}
