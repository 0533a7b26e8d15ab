/* SPDX-License-Identifier: MIT */
#include "heap/runs.h"

#include "base/bits.h"
#include "core/panic.h"
#include "large/fence.h"
#include "large/huge.h"
#include "limit/limit.h"
#include "sys/sys.h"

/* --- What is taken ------------------------------------------------------------------------------------------------ */

static size_t taken_locked(const heap_t *h) {
    hk_assert(hk_lock_is_held(&h->lock));
    size_t slots = atomic_load_explicit(&h->slot_count, memory_order_relaxed);
    huge_sum_t huge = h->own.had_huge ? huge_of_owner(h->own.id) : (huge_sum_t){0};
    return (slots << HK_SLOT_SHIFT) + h->own.run_bytes + huge.bytes;
}

bool runs_fit_locked(heap_t *h, size_t bytes) {
    hk_assert(hk_lock_is_held(&h->lock));
    size_t limit = h->own.limit_bytes;
    return hk_likely(limit == 0) || (bytes <= limit && taken_locked(h) <= limit - bytes);
}

bool runs_fit(heap_t *h, size_t bytes) {
    heap_lock(h);
    bool fit = runs_fit_locked(h, bytes);
    heap_unlock(h);
    return fit;
}

void runs_note_peak_locked(heap_t *h) { h->own.peak_bytes = hk_max(h->own.peak_bytes, taken_locked(h)); }

/* Under the heap's lock a block keeps its heap, and a heap that has a block has not ended. */
bool runs_may_take_locked(const heap_t *h, const void *beside) {
    hk_assert(hk_lock_is_held(&h->lock));
    if (hk_likely(beside == NULL))
        return true;
    const uint32_t entry = map_lookup(beside);
    return (entry != 0 ? entry >> 8 : huge_owner(beside)) == h->own.id;
}

/* Under the lock of its owner a slab or a run keeps it; between the look and the lock it may have got another. */
heap_t *runs_lock_owner(const void *block) {
    for (uint32_t entry; map_is_explicit(entry = map_lookup(block));) {
        heap_t *h = heap_by_id_here(entry >> 8);
        heap_lock_here(h);
        if (hk_likely(map_lookup(block) == entry))
            return h;
        heap_unlock(h);
    }
    return NULL;
}

/* --- Runs --------------------------------------------------------------------------------------------------------- */

static void link_locked(heap_t *h, void *block) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert((uintptr_t)block % HK_SLOT_SIZE == 0 && large_is_live(block));
    slot_t slot = (slot_t)map_slot(block);
    *large_links(slot) = (large_links_t){.next = h->own.runs};
    if (h->own.runs != 0)
        large_links(h->own.runs)->previous = slot;
    h->own.runs = slot;
    h->own.run_bytes += large_size(block);
    large_tag(block, h->own.id, HK_CLASS_COUNT);
    map_reset_live(slot, 1);
    map_set_live_shared(map_granule(block));
}

/* At the higher levels, what the program has no longer reads as zeros: SEAL-1. */
static void wipe(void *block) {
    hk_assert(large_is_live(block));
    if (hk_unlikely(hardened_is_on()))
        sys_purge(block, large_open_size(block)); /* behind a fence there are zeros */
}

static void unlink_locked(heap_t *h, void *block) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(map_lookup(block) == (map_tag(h->own.id) | HK_CLASS_COUNT));
    hk_assert(h->own.run_bytes >= large_size(block));
    slot_t slot = (slot_t)map_slot(block);
    const large_links_t links = *large_links(slot);
    if (links.previous != 0)
        large_links(links.previous)->next = links.next;
    else
        h->own.runs = links.next;
    if (links.next != 0)
        large_links(links.next)->previous = links.previous;
    h->own.run_bytes -= large_size(block);
    large_tag(block, HK_OWNER_NONE, 0);
}

/* What grew ahead is larger than what was asked for: the heap takes it all, as far as its limit reaches. */
static void keep_to_limit_locked(heap_t *h, void *block, size_t size) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(large_size(block) >= size);
    if (!runs_fit_locked(h, large_size(block)))
        large_shrink(&heap_shared()->large, block, size);
}

void *runs_take(heap_t *h, size_t size, size_t align, const void *beside, bool *zeroed) {
    hk_assert(size > 0);
    void *block = NULL;
    heap_lock(h);
    hk_assert(h->own.id >= HK_OWNER_EXPLICIT);
    if (runs_may_take_locked(h, beside) && runs_fit_locked(h, hk_align_up(size, HK_SLOT_SIZE)) && limit_allows(size))
        block = large_alloc(&heap_shared()->large, size, align, zeroed);
    if (block != NULL) {
        link_locked(h, block);
        h->own.big_allocs++;
        runs_note_peak_locked(h);
    }
    heap_unlock(h);
    return block;
}

bool runs_give(void *block, bool *double_free) {
    heap_t *h = runs_lock_owner(block);
    if (h == NULL)
        return false;
    const bool was_live = map_clear_live_shared(map_granule(block));
    if (was_live)
        unlink_locked(h, block);
    heap_unlock(h);
    if (was_live)
        wipe(block);
    *double_free = !was_live || !large_free(&heap_shared()->large, block, !limit_is_near());
    return true;
}

static void *resize(void *block, size_t size, bool may_move) {
    large_counts_t *counts = &heap_shared()->large;
    if (may_move)
        return large_resize(counts, block, size, !hardened_is_on() && limit_is_far(size));
    return large_resize_here(counts, block, size) ? block : NULL;
}

/* Under the lock, so that the heap cannot go meanwhile. */
void *runs_resize(void *block, size_t size, bool may_move) {
    heap_t *h = runs_lock_owner(block);
    if (h == NULL)
        return resize(block, size, may_move);
    void *now = NULL;
    size_t wanted = hk_align_up(size, HK_SLOT_SIZE);
    size_t more = wanted > large_size(block) ? wanted - large_size(block) : 0;
    if (more == 0 || (runs_fit_locked(h, more) && limit_allows(more))) {
        unlink_locked(h, block);
        (void)map_clear_live_shared(map_granule(block));
        now = resize(block, size, may_move);
        if (now != NULL)
            keep_to_limit_locked(h, now, size);
        link_locked(h, now != NULL ? now : block);
        runs_note_peak_locked(h);
    }
    heap_unlock(h);
    return now;
}

/* --- Huge blocks -------------------------------------------------------------------------------------------------- */

void *runs_take_huge(heap_t *h, size_t size, size_t align, const void *beside) {
    hk_assert(size > 0);
    void *block = NULL;
    heap_lock(h);
    hk_assert(h->own.id >= HK_OWNER_EXPLICIT);
    if (runs_may_take_locked(h, beside) && runs_fit_locked(h, hk_align_up(size, sys_page_size())) && limit_allows(size))
        block = huge_alloc(size, align);
    if (block != NULL) {
        huge_set_owner(block, h->own.id);
        h->own.had_huge = true;
        h->own.big_allocs++;
        runs_note_peak_locked(h);
    }
    heap_unlock(h);
    return block;
}

static void *resize_huge(void *block, size_t size, bool may_move) {
    if (may_move)
        return huge_resize(block, size);
    return huge_resize_here(block, size) ? block : NULL;
}

/* Under the lock no other thread takes what was found to be within the limit. */
static void *resize_huge_locked(heap_t *h, void *block, size_t size, bool may_move) {
    hk_assert(hk_lock_is_held(&h->lock));
    void *start;
    size_t have, wanted = hk_align_up(size, sys_page_size());
    if (!huge_find(block, &start, &have) || wanted <= have)
        return resize_huge(block, size, may_move);
    void *now =
        runs_fit_locked(h, wanted - have) && limit_allows(wanted - have) ? resize_huge(block, size, may_move) : NULL;
    runs_note_peak_locked(h);
    return now;
}

void *runs_resize_huge(void *block, size_t size, bool may_move) {
    for (uint32_t owner; (owner = huge_owner(block)) != HK_OWNER_NONE;) {
        heap_t *h = heap_by_id(owner);
        heap_lock(h);
        bool still = huge_owner(block) == owner;
        void *now = still ? resize_huge_locked(h, block, size, may_move) : NULL;
        heap_unlock(h);
        if (still)
            return now;
    }
    return resize_huge(block, size, may_move);
}

/* --- All of them -------------------------------------------------------------------------------------------------- */

size_t runs_close_locked(heap_t *h) {
    hk_assert(hk_lock_is_held(&h->lock));
    size_t bytes = 0;
    while (h->own.runs != 0) {
        void *block = map_slot_address(h->own.runs);
        bytes += large_size(block);
        (void)map_clear_live_shared(map_granule(block));
        unlink_locked(h, block);
        wipe(block);
        (void)large_free(&heap_shared()->large, block, !limit_is_near());
    }
    for (void *block; h->own.had_huge && huge_list(h->own.id, &block, 1) > 0;) {
        size_t before = huge_of_owner(h->own.id).bytes;
        (void)huge_free(block);
        bytes += before - huge_of_owner(h->own.id).bytes;
    }
    return bytes;
}

void runs_leave_locked(heap_t *h) {
    hk_assert(hk_lock_is_held(&h->lock));
    while (h->own.runs != 0) {
        void *block = map_slot_address(h->own.runs);
        (void)map_clear_live_shared(map_granule(block));
        unlink_locked(h, block);
    }
    for (void *block; h->own.had_huge && huge_list(h->own.id, &block, 1) > 0;)
        huge_set_owner(block, HK_OWNER_NONE);
}

void runs_add_locked(heap_t *h, heap_totals_t *totals) {
    hk_assert(hk_lock_is_held(&h->lock));
    huge_sum_t huge = h->own.had_huge ? huge_of_owner(h->own.id) : (huge_sum_t){0};
    totals->live_blocks += huge.count;
    totals->live_bytes += huge.bytes + h->own.run_bytes;
    for (slot_t at = h->own.runs; at != 0; at = large_links(at)->next)
        totals->live_blocks++;
    totals->alloc_count += h->own.big_allocs;
    totals->taken_bytes = taken_locked(h);
    totals->peak_bytes = h->own.peak_bytes;
    totals->limit_bytes = h->own.limit_bytes;
}
