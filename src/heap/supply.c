/* SPDX-License-Identifier: MIT */
#include "heap/supply.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/panic.h"
#include "heap/budget.h"
#include "heap/lists.h"
#include "heap/messages.h"
#include "heap/slot_cache.h"
#include "limit/limit.h"
#include "sys/sys.h"

enum {
    IDLE_MS = 20,          /* a heap without slow paths for so long sleeps */
    SCAN_HEAPS = 64,       /* heaps looked at before a new slab is opened, whose pages cost more than the looks */
    PASSED_SHARE = 8,      /* a heap passes blocks on when it freed one of another's for so many that it allocated */
    SURPLUS_SLABS_MAX = 8, /* slabs that one of them gives at a time while it is awake */
};

/* Moves a slab from heap `from` to `h`; the caller holds both locks. */
static void adopt_slab_locked(heap_t *h, heap_t *from, slab_t *slab) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(hk_lock_is_held(&from->lock));
    hk_assert(h != from && slab_is_whole(slab));
    heap_remove_locked(from, slab);
    slab_set_owner(slab, h->front.id);
    heap_insert_locked(h, slab);
    hk_count(slabs_adopted);
}

/* What a drain for another heap came upon is reported by whoever drained. */
static void drain_for_locked(heap_t *h, heap_t *from) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(hk_lock_is_held(&from->lock));
    hk_assert(h != from);
    heap_drain_locked(from);
    if (hk_likely(from->double_frees.count == 0))
        return;
    from->double_frees.count += h->double_frees.count;
    h->double_frees = from->double_frees;
    from->double_frees = (double_frees_t){0};
}

static slab_t *adopt_from_locked(heap_t *h, heap_t *from, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(hk_lock_is_held(&from->lock));
    hk_assert(h != from);
    drain_for_locked(h, from);
    slab_t *slab = heap_pick_locked(from, cls);
    if (slab != NULL)
        adopt_slab_locked(h, from, slab);
    return slab;
}

/* Slabs, or frees of slabs that went elsewhere, which only a drain passes on. */
static bool has_anything(const heap_t *h) {
    return atomic_load_explicit(&h->slot_count, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&h->inbox, memory_order_relaxed) != NULL;
}

/* A partial slab of the class whose thread is gone. */
static slab_t *adopt_from_pool_locked(heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    heap_t *shared = heap_shared();
    if (h == shared || !has_anything(shared))
        return NULL;
    heap_lock(shared);
    slab_t *slab = adopt_from_locked(h, shared, cls);
    heap_unlock(shared);
    return slab;
}

/* True when the heap's thread has not come behind its magazines for so long; for 0, since the last look. A parked heap
 * has no thread. Relaxed: one that takes it at this moment finds less, as from any other that slept. */
static bool is_idle_locked(heap_t *h, uint32_t now_ms, uint32_t for_ms) {
    hk_assert(hk_lock_is_held(&h->lock));
    if (atomic_load_explicit(&h->life, memory_order_relaxed) == HEAP_PARKED)
        return true;
    if (h->lock_takes == h->idle_takes)
        return sys_age_ms(now_ms, h->idle_since_ms) >= for_ms;
    h->idle_takes = h->lock_takes;
    h->idle_since_ms = now_ms;
    return false;
}

/* Where threads keep to their own blocks, their slabs stay with them too. */
bool heap_passes_on(const heap_t *h, unsigned cls) {
    hk_assert(cls < HK_CLASS_COUNT);
    const heap_class_stats_t *stats = &h->class_stats[cls];
    return hk_read(stats->freed_remote) * PASSED_SHARE > heap_pops(h, cls, heap_magazine_count(h, cls));
}

/* Partial slabs of a thread that is awake, the fullest first, as the emptiest may soon be empty, and never the last of
 * a list: as many as it takes to make up for a new slab. Returns the first. Without them, where blocks change threads,
 * each heap keeps slabs for its largest swing: magazines take from one heap and give to another by hundreds, at random,
 * and what one lacks another has too much of (docs/adr/0019). */
static slab_t *adopt_surplus_locked(heap_t *h, heap_t *from, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(hk_lock_is_held(&from->lock));
    hk_assert(h != from && cls < HK_CLASS_COUNT);
    unsigned adopted = 0, blocks = 0;
    slab_t *first = NULL;
    for (unsigned bin = 0; bin < HEAP_BINS; bin++) {
        slot_t head = from->class_stats[cls].partial[bin];
        while (head != 0 && slab_at(head)->next != 0) {
            slab_t *slab = slab_at(slab_at(head)->next);
            adopt_slab_locked(h, from, slab);
            first = first != NULL ? first : slab;
            blocks += slab->free_count;
            if (++adopted == SURPLUS_SLABS_MAX || blocks >= slab->block_count)
                return first;
        }
    }
    return first;
}

/* When oversubscribed, most threads wait for a processor most of the time, for less than an idle one; who has one would
 * open slabs beside theirs where blocks change threads. Threads that keep to their blocks keep their slabs. */
static uint32_t idle_ms_locked(const heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    return heap_is_oversubscribed() && heap_passes_on(h, cls) ? 0 : IDLE_MS;
}

/* A partial slab of the class from a thread that sleeps while others free its blocks, or from one that is awake and
 * passes its blocks on; of long blocks from any, as each thread would have a slab with a block or two. Looks at a few
 * heaps a time; their locks are only tried, so that two heaps never wait for each other (HEAP-3). */
static slab_t *adopt_from_others_locked(heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    /* Where whoever looked last stopped, so that all heaps have their turn however many threads look a few times each.
     * Any thread, relaxed: a hint. */
    static _Atomic uint32_t cursor;
    uint32_t limit = heap_limit(), id = atomic_load_explicit(&cursor, memory_order_relaxed), now = 0;
    size_t most = hk_min(SCAN_HEAPS, limit - HK_OWNER_FIRST);
    slab_t *slab = NULL;
    for (size_t i = 0; i < most && slab == NULL; i++) {
        id = id + 1 < limit && id >= HK_OWNER_FIRST ? id + 1 : HK_OWNER_FIRST;
        heap_t *other = heap_by_id(id);
        if (id >= limit || other == h || !has_anything(other))
            continue;
        if (!hk_try_lock(&other->lock))
            continue;
        now = now != 0 ? now : (uint32_t)sys_now_ms();
        if (class_is_earned(cls) || is_idle_locked(other, now, idle_ms_locked(other, cls)) || region_is_near_limit())
            slab = adopt_from_locked(h, other, cls);
        else if (heap_passes_on(other, cls))
            slab = adopt_surplus_locked(h, other, cls);
        hk_unlock(&other->lock);
    }
    atomic_store_explicit(&cursor, slab != NULL ? id - 1 : id, memory_order_relaxed);
    return slab;
}

/* Whether the shared heap, whose lock is held, has a slab of the class here. */
static bool is_pools_locked(const slab_t *slab, unsigned cls) {
    hk_assert(hk_lock_is_held(&heap_shared()->lock));
    return atomic_load_explicit(&slab->owner, memory_order_relaxed) == HK_OWNER_SHARED &&
           atomic_load_explicit(&slab->state, memory_order_relaxed) == SLAB_OPEN && slab->cls == cls;
}

bool heap_adopt_freed_slab(heap_t *h, slab_t *slab, unsigned cls) {
    hk_assert(h != heap_shared());
    heap_t *shared = heap_shared();
    if (hk_unlikely(!hk_try_lock(&h->lock)))
        return false;
    h->lock_takes++;
    heap_lock(shared);
    bool adopted = is_pools_locked(slab, cls);
    if (adopted) {
        /* Messages at the shared heap may have the slab's last blocks, when this free is a second one of one of them:
         * then the drain closes it, and somebody may have opened another here since. */
        drain_for_locked(h, shared);
        adopted = is_pools_locked(slab, cls);
    }
    if (adopted)
        adopt_slab_locked(h, shared, slab);
    heap_unlock(shared);
    heap_unlock(h);
    return adopted;
}

slab_t *heap_open_slab_locked(heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(cls < HK_CLASS_COUNT);
    if (!limit_allows((size_t)hk_class_info[cls].slab_slots << HK_SLOT_SHIFT))
        return NULL;
    if (superslab_may_open_for(hk_class_info[cls].slab_slots))
        slot_cache_give_back(h);
    /* Where there are many threads, each has a few blocks of a class only. */
    slab_t *slab = slab_open(cls, h->front.id, heap_press() != HEAP_HEAVILY);
    if (slab != NULL)
        heap_insert_locked(h, slab);
    return slab;
}

static slab_t *drained_slab_locked(heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    heap_drain_locked(h);
    return heap_pick_locked(h, cls);
}

/* The staircase: own slab, own slab of which others freed, slab of a dead thread, slab of another thread, new slab.
 * What others freed is fetched late: every slab's line comes from another core, so it should bring many blocks. */
static slab_t *slab_with_room_locked(heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    slab_t *slab = heap_pick_locked(h, cls);
    if (slab == NULL)
        slab = drained_slab_locked(h, cls);
    if (slab == NULL)
        slab = adopt_from_pool_locked(h, cls);
    if (slab == NULL) /* the shared heap may have passed on what others freed of ours */
        slab = drained_slab_locked(h, cls);
    if (slab == NULL)
        slab = adopt_from_others_locked(h, cls);
    if (slab == NULL)
        slab = heap_open_slab_locked(h, cls);
    return slab;
}

unsigned heap_take_locked(heap_t *h, unsigned cls, granule_t *end, unsigned want) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(want > 0 && cls < HK_CLASS_COUNT);
    unsigned got = 0;
    while (got < want) {
        slab_t *slab = got == 0 ? slab_with_room_locked(h, cls) : heap_pick_locked(h, cls);
        if (slab == NULL)
            break;
        got += slab_take(slab, end - got, want - got);
        heap_settle_locked(h, slab);
    }
    h->refilled_bytes += (size_t)got * hk_class_info[cls].block_size;
    return got;
}

static void *take_one(heap_t *h, unsigned cls, slab_t *with_room_locked(heap_t *, unsigned), block_past_t *past) {
    hk_assert(cls < HK_CLASS_COUNT);
    void *block = NULL;
    heap_lock_here(h);
    slab_t *slab = with_room_locked(h, cls);
    if (slab != NULL) {
        block = slab_take_one(slab, past);
        heap_settle_locked(h, slab);
        h->class_stats[cls].refilled++;
    }
    heap_unlock_here(h);
    if (block != NULL)
        map_set_live_shared(map_granule(block)); /* the shared heap's slabs serve several threads */
    return block;
}

void *heap_take_one(heap_t *h, unsigned cls, block_past_t *past) {
    return take_one(h, cls, slab_with_room_locked, past);
}

static slab_t *slab_there_locked(heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    slab_t *slab = heap_pick_locked(h, cls);
    return slab != NULL ? slab : drained_slab_locked(h, cls);
}

void *heap_take_one_there(heap_t *h, unsigned cls) {
    block_past_t past;
    return take_one(h, cls, slab_there_locked, &past);
}

static void give_to_shared_locked(heap_t *shared, slab_t *slab) {
    hk_assert(hk_lock_is_held(&shared->lock));
    hk_assert(slab->list == SLAB_LIST_NONE);
    slab_set_owner(slab, HK_OWNER_SHARED);
    heap_insert_locked(shared, slab);
    /* Messages to the old owner go on to the shared heap when they are opened. */
}

/* The shared heap's lock is taken for one slab at a time: threads that need one may wait for it. */
static void hand_over_list_locked(heap_t *h, heap_t *shared, slot_t *head) {
    hk_assert(hk_lock_is_held(&h->lock) && h != shared);
    while (*head != 0) {
        slab_t *slab = slab_at(*head);
        if (slab_is_empty(slab)) {
            heap_close_slab_locked(h, slab);
            continue;
        }
        heap_remove_locked(h, slab);
        heap_lock(shared);
        give_to_shared_locked(shared, slab);
        heap_unlock(shared);
    }
}

void heap_hand_over_locked(heap_t *h) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(h != heap_shared());
    slot_cache_give_back(h);
    heap_t *shared = heap_shared();
    heap_drain_locked(h);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        for (unsigned bin = 0; bin < HEAP_BINS && h->class_stats[cls].slab_count > 0; bin++)
            hand_over_list_locked(h, shared, &h->class_stats[cls].partial[bin]);
    hand_over_list_locked(h, shared, &h->full);
    /* What came to this heap meanwhile goes on to the shared heap. */
    heap_drain_locked(h);
}
