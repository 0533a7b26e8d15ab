/* SPDX-License-Identifier: MIT */
#include "heap/heap.h"

#include "core/counters.h"

static unsigned bin_for(const slab_t *slab) {
    return (slab->free_count * (unsigned)HEAP_BINS - 1) / slab->block_count;
}

static slot_t *list_head(heap_t *h, const slab_t *slab) {
    return slab->list == SLAB_LIST_FULL ? &h->full : &h->partial[slab->cls][slab->bin];
}

static void link_locked(heap_t *h, slab_t *slab) {
    slab->list = slab->free_count == 0 ? SLAB_LIST_FULL : SLAB_LIST_PARTIAL;
    if (slab->list == SLAB_LIST_PARTIAL)
        slab->bin = (uint8_t)bin_for(slab);
    slot_t *head = list_head(h, slab);
    slab->previous = 0;
    slab->next = *head;
    if (*head != 0)
        slab_at(*head)->previous = slab_slot(slab);
    *head = slab_slot(slab);
}

static void unlink_locked(heap_t *h, slab_t *slab) {
    if (slab->previous != 0)
        slab_at(slab->previous)->next = slab->next;
    else
        *list_head(h, slab) = slab->next;
    if (slab->next != 0)
        slab_at(slab->next)->previous = slab->previous;
    slab->list = SLAB_LIST_NONE;
}

void heap_insert_locked(heap_t *h, slab_t *slab) {
    link_locked(h, slab);
    h->class_stats[slab->cls].slab_count++;
    atomic_fetch_add_explicit(&h->slab_count, 1, memory_order_relaxed);
}

void heap_remove_locked(heap_t *h, slab_t *slab) {
    unlink_locked(h, slab);
    h->class_stats[slab->cls].slab_count--;
    atomic_fetch_sub_explicit(&h->slab_count, 1, memory_order_relaxed);
}

/* An empty slab is kept when it is the only one of its class with room: closing it would be undone at the next refill. */
static bool is_spare_locked(const heap_t *h, const slab_t *slab) {
    slot_t self = slab_slot(slab);
    for (unsigned bin = 0; bin < HEAP_BINS; bin++) {
        slot_t head = h->partial[slab->cls][bin];
        if (head != 0 && (head != self || slab->next != 0))
            return false;
    }
    return true;
}

static void retire_locked(heap_t *h, slab_t *slab) {
    heap_remove_locked(h, slab);
    slab_close(slab);
    hk_count(slabs_retired);
}

void heap_settle_locked(heap_t *h, slab_t *slab) {
    if (slab_is_empty(slab) && (h->front.id == HK_OWNER_POOL || !is_spare_locked(h, slab))) {
        retire_locked(h, slab);
        return;
    }
    bool full = slab->free_count == 0;
    if (full == (slab->list == SLAB_LIST_FULL) && (full || slab->bin == bin_for(slab)))
        return;
    unlink_locked(h, slab);
    link_locked(h, slab);
}

void heap_retire_spares_locked(heap_t *h) {
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        slot_t at = h->partial[cls][HEAP_BINS - 1];
        while (at != 0) {
            slab_t *slab = slab_at(at);
            at = slab->next;
            if (slab_is_empty(slab))
                retire_locked(h, slab);
        }
    }
}

/* The fullest partial slab of the class. */
static slab_t *pick_locked(const heap_t *h, unsigned cls) {
    for (unsigned bin = 0; bin < HEAP_BINS; bin++)
        if (h->partial[cls][bin] != 0)
            return slab_at(h->partial[cls][bin]);
    return NULL;
}

/* Takes a partial slab of the class over from the pool heap. */
static slab_t *adopt_locked(heap_t *h, unsigned cls) {
    heap_t *pool = heap_pool();
    if (h == pool || atomic_load_explicit(&pool->slab_count, memory_order_relaxed) == 0)
        return NULL;
    heap_lock(pool);
    heap_drain_locked(pool);
    slab_t *slab = pick_locked(pool, cls);
    if (slab != NULL) {
        heap_remove_locked(pool, slab);
        slab_set_owner(slab, h->front.id);
    }
    heap_unlock(pool);
    if (slab == NULL)
        return NULL;
    heap_insert_locked(h, slab);
    hk_count(slabs_adopted);
    return slab;
}

static slab_t *open_locked(heap_t *h, unsigned cls) {
    bool reused = false;
    slab_t *slab = slab_open(cls, h->front.id, &reused);
    if (slab == NULL)
        return NULL;
    heap_insert_locked(h, slab);
    if (reused)
        hk_count(slabs_reused);
    else
        hk_count(slabs_new);
    return slab;
}

/* The staircase: own slab, slab of a dead thread, new slab. */
static slab_t *slab_with_room_locked(heap_t *h, unsigned cls) {
    slab_t *slab = pick_locked(h, cls);
    if (slab == NULL)
        slab = adopt_locked(h, cls);
    if (slab == NULL)
        slab = open_locked(h, cls);
    return slab;
}

unsigned heap_take_locked(heap_t *h, unsigned cls, void **end, unsigned want) {
    heap_drain_locked(h);
    unsigned got = 0;
    while (got < want) {
        slab_t *slab = got == 0 ? slab_with_room_locked(h, cls) : pick_locked(h, cls);
        if (slab == NULL)
            break;
        got += slab_take(slab, end - got, want - got);
        heap_settle_locked(h, slab);
    }
    return got;
}

void *heap_take_one_locked(heap_t *h, unsigned cls, bool *zeroed) {
    heap_drain_locked(h);
    slab_t *slab = slab_with_room_locked(h, cls);
    if (slab == NULL)
        return NULL;
    void *block = slab_take_one(slab, zeroed);
    heap_settle_locked(h, slab);
    return block;
}

static void give_to_pool_locked(heap_t *pool, slab_t *slab) {
    slab_set_owner(slab, HK_OWNER_POOL);
    heap_insert_locked(pool, slab);
    /* Frees that were posted to the old owner's list are forwarded when that list is drained. */
}

static void hand_over_list_locked(heap_t *h, heap_t *pool, slot_t *head) {
    while (*head != 0) {
        slab_t *slab = slab_at(*head);
        if (slab_is_empty(slab)) {
            retire_locked(h, slab);
            continue;
        }
        heap_remove_locked(h, slab);
        give_to_pool_locked(pool, slab);
    }
}

void heap_hand_over_locked(heap_t *h) {
    heap_t *pool = heap_pool();
    heap_drain_locked(h);
    heap_lock(pool);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        for (unsigned bin = 0; bin < HEAP_BINS; bin++)
            hand_over_list_locked(h, pool, &h->partial[cls][bin]);
    hand_over_list_locked(h, pool, &h->full);
    heap_unlock(pool);
    /* What was posted to this heap meanwhile goes on to the pool. */
    heap_drain_locked(h);
}
