/* SPDX-License-Identifier: MIT */
#include "superslab/fence.h"

#include "superslab/bins.h"
#include "superslab/runs.h"
#include "superslab/scatter.h"
#include "sys/sys.h"

enum { FENCE_SHARE = 4 /* one in so many of the slots that may be fenced */ };

static bool fence_taken(slot_t slot, bool dirty) {
    if (sys_fence(map_slot_address(slot), HK_SLOT_SIZE))
        return true;
    slots_free(slot, 1, dirty);
    return false;
}

bool slots_fence(slot_t slot) { return slots_take_free(slot, 1) && fence_taken(slot, true); }

static bool may_fence_locked(size_t index, uint32_t mask) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    const superslab_t *s = pool_record(index);
    return pool_knows(index) && !s->huge && (s->free_mask & ~s->dirty_mask & mask) != 0;
}

/* A slot that is to be fenced takes no page, so that it went in haste is no cause for regret. */
static void take_locked(superslab_t *s, uint32_t mask) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    s->hasty_mask &= ~mask;
    (void)pool_take_locked(s, mask);
}

bool slots_fence_at_times(slot_t slot) {
    if (!pool_scatters() || !sys_fences_by_mark())
        return false;
    size_t index, length;
    uint32_t mask = pool_part(slot, 1, &index, &length);
    hk_lock(&hk_superslab_lock);
    bool takes = pool_draw_locked(FENCE_SHARE) == 0 && may_fence_locked(index, mask);
    if (takes)
        take_locked(pool_record(index), mask);
    hk_unlock(&hk_superslab_lock);
    return takes && fence_taken(slot, false);
}

/* What is mapped anew lies between pages of its superslab's kind. */
bool slots_open(char *from, size_t size) {
    if (sys_unfence(from, size))
        return true;
    if (region_map_over(from, size) != 0)
        return false;
    sys_fence_is_mapped_over();
    if (superslab_view(map_slot(from) / SLOTS).huge)
        (void)sys_advise_huge(from, size);
    return true;
}

void slots_unfence(slot_t slot) {
    if (slots_open(map_slot_address(slot), HK_SLOT_SIZE))
        slots_free(slot, 1, false);
}
