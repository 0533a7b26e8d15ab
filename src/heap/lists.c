/* SPDX-License-Identifier: MIT */
#include "heap/lists.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/counters.h"
#include "core/panic.h"
#include "heap/budget.h"

_Static_assert(HEAP_BINS == 4, "bin_for compares with three borders");

/* (free_count * 4 - 1) / block_count for partial slabs, HEAP_BIN_EMPTY for empty ones. */
static unsigned bin_for(const slab_t *slab) {
    hk_assert(slab->free_count > 0 && slab->free_count <= slab->block_count);
    unsigned count = slab->block_count, quarters = slab->free_count * 4u - 1;
    return (quarters >= count ? 1u : 0u) + (quarters >= 2 * count ? 1u : 0u) + (quarters >= 3 * count ? 1u : 0u) +
           (slab_is_empty(slab) ? 1u : 0u);
}

/* The least free_count above the bin's: slabs of the last one settle when they are empty. */
static uint16_t end_of_bin(const slab_t *slab, unsigned bin) {
    unsigned count = slab->block_count, end = ((bin + 1) * count) / 4 + 1;
    return (uint16_t)(bin + 1 < HEAP_BINS && end < count ? end : count);
}

static slot_t *list_head(heap_t *h, const slab_t *slab) {
    if (slab->list == SLAB_LIST_FULL)
        return &h->full;
    return &h->class_stats[slab->cls].partial[hk_min(slab->bin, HEAP_BINS - 1)];
}

static bool is_spare(slot_t slot) { return slot != 0 && slab_at(slot)->bin == HEAP_BIN_EMPTY; }

/* The last of the empty slabs that begin the list of the class's emptiest, or 0: there are few. */
static slot_t last_spare(const heap_t *h, unsigned cls) {
    slot_t last = 0;
    for (slot_t at = h->class_stats[cls].partial[HEAP_BINS - 1]; is_spare(at); at = slab_at(at)->next)
        last = at;
    return last;
}

static void note_spare_locked(heap_t *h, unsigned cls) { h->spares[cls / 64] |= UINT64_C(1) << (cls % 64); }

static void link_locked(heap_t *h, slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(slab->list == SLAB_LIST_NONE);
    slab->list = slab->free_count == 0 ? SLAB_LIST_FULL : SLAB_LIST_PARTIAL;
    slab->settle_at = 1;
    if (slab->list == SLAB_LIST_PARTIAL) {
        slab->bin = (uint8_t)bin_for(slab);
        slab->settle_at = end_of_bin(slab, slab->bin);
    }
    slab->previous = 0;
    if (slab->list == SLAB_LIST_PARTIAL && slab->bin == HEAP_BIN_EMPTY)
        note_spare_locked(h, slab->cls);
    else if (slab->list == SLAB_LIST_PARTIAL && slab->bin == HEAP_BINS - 1)
        slab->previous = last_spare(h, slab->cls);
    slot_t *place = slab->previous != 0 ? &slab_at(slab->previous)->next : list_head(h, slab);
    slab->next = *place;
    if (*place != 0)
        slab_at(*place)->previous = slab_slot(slab);
    *place = slab_slot(slab);
}

static void unlink_locked(heap_t *h, slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(slab->list == SLAB_LIST_FULL || slab->list == SLAB_LIST_PARTIAL);
    hk_assert(slab->previous != 0 ? slab_at(slab->previous)->next == slab_slot(slab)
                                  : *list_head(h, slab) == slab_slot(slab));
    hk_assert(slab->next == 0 || slab_at(slab->next)->previous == slab_slot(slab));
    if (slab->previous != 0)
        slab_at(slab->previous)->next = slab->next;
    else
        *list_head(h, slab) = slab->next;
    if (slab->next != 0)
        slab_at(slab->next)->previous = slab->previous;
    slab->list = SLAB_LIST_NONE;
}

void heap_insert_locked(heap_t *h, slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(slab_is_whole(slab));
    hk_assert(atomic_load_explicit(&slab->owner, memory_order_relaxed) == h->front.id);
    link_locked(h, slab);
    hk_add(h->class_stats[slab->cls].slab_count, 1);
    atomic_fetch_add_explicit(&h->slot_count, hk_class_info[slab->cls].slab_slots, memory_order_relaxed);
}

void heap_remove_locked(heap_t *h, slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(h->class_stats[slab->cls].slab_count > 0);
    unlink_locked(h, slab);
    hk_write(h->class_stats[slab->cls].slab_count, hk_read(h->class_stats[slab->cls].slab_count) - 1);
    atomic_fetch_sub_explicit(&h->slot_count, hk_class_info[slab->cls].slab_slots, memory_order_relaxed);
}

/* An empty slab is kept when it is the only one of its class with room: closing it would be undone at the next refill.
 * Not when oversubscribed, where a slab of each class in every thread adds up. */
static bool may_be_spare_locked(const heap_t *h, const slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(slab_is_empty(slab));
    if (heap_is_oversubscribed())
        return false;
    slot_t self = slab_slot(slab);
    for (unsigned bin = 0; bin < HEAP_BINS; bin++) {
        slot_t head = h->class_stats[slab->cls].partial[bin];
        if (head != 0 && (head != self || slab->next != 0))
            return false;
    }
    return true;
}

void heap_close_slab_locked(heap_t *h, slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(slab_is_empty(slab));
    heap_remove_locked(h, slab);
    slab_close(slab);
    hk_count(slabs_retired);
}

/* False when it was closed. */
static bool settle_locked(heap_t *h, slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(atomic_load_explicit(&slab->owner, memory_order_relaxed) == h->front.id);
    if (slab_is_empty(slab) && (h->front.id == HK_OWNER_SHARED || !may_be_spare_locked(h, slab))) {
        heap_close_slab_locked(h, slab);
        return false;
    }
    bool full = slab->free_count == 0;
    if (full == (slab->list == SLAB_LIST_FULL) && (full || slab->bin == bin_for(slab)))
        return true;
    unlink_locked(h, slab);
    link_locked(h, slab);
    return true;
}

void heap_settle_locked(heap_t *h, slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    bool stays = settle_locked(h, slab);
    hk_assert(!stays || slab_check(slab) == 0);
}

void heap_close_spares_locked(heap_t *h) {
    hk_assert(hk_lock_is_held(&h->lock));
    for (unsigned word = 0; word < HK_CLASS_COUNT / 64; word++) {
        uint64_t classes = h->spares[word];
        h->spares[word] = 0;
        for (; classes != 0; classes &= classes - 1) {
            const slot_t *head = &h->class_stats[word * 64 + hk_ctz64(classes)].partial[HEAP_BINS - 1];
            while (is_spare(*head))
                heap_close_slab_locked(h, slab_at(*head));
        }
    }
}

slab_t *heap_pick_locked(const heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(cls < HK_CLASS_COUNT);
    for (unsigned bin = 0; bin < HEAP_BINS - 1; bin++)
        if (h->class_stats[cls].partial[bin] != 0)
            return slab_at(h->class_stats[cls].partial[bin]);
    slot_t spare = last_spare(h, cls);
    slot_t first = spare != 0 ? slab_at(spare)->next : h->class_stats[cls].partial[HEAP_BINS - 1];
    return first != 0 ? slab_at(first) : spare != 0 ? slab_at(spare) : NULL;
}
