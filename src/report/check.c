/* SPDX-License-Identifier: MIT */
#include "report/check.h"

#include "core/panic.h"
#include "core/message.h"
#include "heap/heap.h"
#include "start/start.h"
#include "superslab/superslab.h"

/* Where an empty slab is looked for. */
static bool is_spare_locked(const heap_t *h, const slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    bool first = slab->previous == 0 || slab_at(slab->previous)->bin == HEAP_BIN_EMPTY;
    return slab->bin == HEAP_BIN_EMPTY && first && (h->spares[slab->cls / 64] >> slab->cls % 64 & 1) != 0;
}

static size_t check_list_locked(const heap_t *h, slot_t at, uint8_t list, unsigned cls, unsigned bin) {
    hk_assert(hk_lock_is_held(&h->lock));
    size_t bad = 0;
    slot_t previous = 0;
    for (; at != 0; previous = at, at = slab_at(at)->next) {
        const slab_t *slab = slab_at(at);
        bool wrong = slab->list != list || slab->previous != previous ||
                     (list == SLAB_LIST_FULL) != (slab->free_count == 0) ||
                     (list == SLAB_LIST_PARTIAL && (slab->cls != cls || hk_min(slab->bin, HEAP_BINS - 1) != bin)) ||
                     (list == SLAB_LIST_PARTIAL && slab_is_empty(slab) && !is_spare_locked(h, slab)) ||
                     (slab->free_count >= slab->settle_at && !slab_is_empty(slab)) ||
                     atomic_load_explicit(&slab->owner, memory_order_relaxed) != h->front.id;
        if (wrong)
            hk_message("check: heap %u: slab at %p is in the wrong list", h->front.id, (void *)slab_base(slab));
        bad += wrong + slab_check(slab);
    }
    return bad;
}

static size_t check_heap(heap_t *h) {
    size_t bad = 0;
    hk_lock(&h->lock);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        for (unsigned bin = 0; bin < HEAP_BINS; bin++)
            bad += check_list_locked(h, h->class_stats[cls].partial[bin], SLAB_LIST_PARTIAL, cls, bin);
    bad += check_list_locked(h, h->full, SLAB_LIST_FULL, 0, 0);
    hk_unlock(&h->lock);
    return bad;
}

size_t hk_check_all(void) {
    if (!heap_system_ready())
        return 0;
    size_t bad = superslab_check();
    if (!region_check()) {
        hk_message("check: the region's index does not add up");
        bad++;
    }
    for (uint32_t id = HK_OWNER_SHARED; id < heap_limit(); id++)
        bad += check_heap(heap_by_id(id));
    for (uint32_t id = HK_OWNER_EXPLICIT; id < heap_explicit_limit(); id++)
        bad += check_heap(heap_by_id(id));
    return bad;
}
