/* SPDX-License-Identifier: MIT */
#include "heap/explicit.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/panic.h"
#include "heap/lease.h"
#include "heap/lists.h"
#include "heap/messages.h"
#include "heap/runs.h"
#include "heap/supply.h"
#include "large/huge.h"
#include "sys/sys.h"

#include <errno.h>
#include <string.h>

enum {
    TAKER_LOOKS = 16,  /* at slabs, for one that is no other thread's */
    WARM_RECORDS = 64, /* of heaps that have ended; the pages of others go back */
};

_Static_assert(offsetof(heap_own_t, id) == offsetof(heap_front_t, id), "as heap_t's union");

/* Guarded by hk_heap_list_lock. */
static uint32_t unused_ids;
static uint32_t warm_count; /* of them, those whose records have pages */

/* --- Birth and death ---------------------------------------------------------------------------------------------- */

bool explicit_is_one(const void *handle) {
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)heap_by_id_here(HK_OWNER_EXPLICIT);
    size_t count = atomic_load_explicit(&hk_explicit_id_limit, memory_order_acquire) - HK_OWNER_EXPLICIT;
    if (offset % HEAP_STRIDE != 0 || offset / HEAP_STRIDE >= count)
        return false;
    return atomic_load_explicit(&((const heap_t *)handle)->life, memory_order_relaxed) == HEAP_EXPLICIT;
}

static heap_t *make_fresh_locked(int *error) {
    hk_assert(hk_lock_is_held(&hk_heap_list_lock));
    uint32_t id = atomic_load_explicit(&hk_explicit_id_limit, memory_order_relaxed);
    *error = EAGAIN;
    if (id >= HK_OWNER_LIMIT || heap_place(id) + HEAP_STRIDE > hk_window.area_sizes[REGION_AREA_HEAPS])
        return NULL;
    *error = ENOMEM;
    if (!heap_cover(id))
        return NULL;
    heap_t *h = heap_by_id(id);
    heap_prepare(h, id, HK_RANK_HEAP);
    /* Release: pairs with the acquires in explicit_is_one and heap_explicit_limit; who sees the limit sees a prepared
     * heap. */
    atomic_store_explicit(&hk_explicit_id_limit, id + 1, memory_order_release);
    return h;
}

static heap_t *take_unused_locked(void) {
    hk_assert(hk_lock_is_held(&hk_heap_list_lock));
    heap_t *h = heap_by_id(unused_ids);
    unused_ids = h->next_unused;
    warm_count -= h->own.is_warm;
    return h;
}

/* The parse is the check: for hk_assert, of what is taken for the record of an explicit heap. */
static bool explicit_is_id(const heap_t *h) {
    hk_assert(h->own.id >= HK_OWNER_EXPLICIT && h->own.id < heap_explicit_limit());
    hk_assert(h == heap_by_id(h->own.id));
    hk_assert(h->lock.rank == HK_RANK_HEAP);
    return true;
}

/* Whoever still comes with an entry of the heap that had the id takes the lock. */
static void begin(heap_t *h, const char *name, size_t limit) {
    hk_assert(explicit_is_id(h));
    heap_lock(h);
    h->own = (heap_own_t){.tag = map_tag(h->own.id), .id = h->own.id, .limit_bytes = limit};
    if (name != NULL)
        strncpy(h->own.name, name, sizeof h->own.name - 1);
    heap_unlock(h);
    atomic_store_explicit(&h->life, HEAP_EXPLICIT, memory_order_relaxed);
}

heap_t *explicit_make(const char *name, size_t limit, int *error) {
    hk_lock(&hk_heap_list_lock);
    heap_t *h = unused_ids != 0 ? take_unused_locked() : make_fresh_locked(error);
    if (h != NULL)
        begin(h, name, limit);
    hk_unlock(&hk_heap_list_lock);
    return h;
}

heap_t *explicit_named(const char *name, size_t length) {
    heap_t *found = NULL;
    hk_lock(&hk_heap_list_lock);
    for (uint32_t id = HK_OWNER_EXPLICIT; id < heap_explicit_limit() && found == NULL; id++) {
        heap_t *h = heap_by_id(id);
        if (explicit_is_one(h) && strlen(h->own.name) == length && memcmp(h->own.name, name, length) == 0)
            found = h;
    }
    hk_unlock(&hk_heap_list_lock);
    return found;
}

/* Of all blocks that it ever had `live` are another heap's now, and the others free. */
static void move_counts_locked(heap_t *h, unsigned cls, uint64_t live) {
    hk_assert(hk_lock_is_held(&h->lock));
    heap_class_stats_t *to = &heap_shared()->class_stats[cls], *from = &h->class_stats[cls];
    to->refilled += from->refilled;
    hk_add(to->freed_remote, from->refilled - live);
    from->refilled = 0;
}

static void forget_class(heap_t *h, unsigned cls, void *unused) {
    (void)unused;
    move_counts_locked(h, cls, 0);
    h->class_stats[cls] = (heap_class_stats_t){0};
}

static void for_each_class(heap_t *h, void (*act)(heap_t *, unsigned, void *), void *context) {
    for (unsigned word = 0; word < HK_CLASS_COUNT / 64; word++)
        for (uint64_t classes = h->own.classes[word]; classes != 0; classes &= classes - 1)
            act(h, word * 64 + hk_ctz64(classes), context);
}

/* Whole pages of a record whose heap has ended are zeros, but for its first. */
static void give_record_back(heap_t *h) {
    size_t page = sys_page_size();
    uintptr_t from = hk_align_up((uintptr_t)&h->own + sizeof h->own, page),
              to = hk_align_down((uintptr_t)h + HEAP_STRIDE, page);
    if (from < to)
        sys_purge((void *)from, to - from);
}

void explicit_end_locked(heap_t *h) {
    hk_assert(hk_lock_is_held(&hk_heap_list_lock));
    hk_assert(explicit_is_id(h));
    hk_assert(h->own.runs == 0 && h->full == 0 && h->own.leases == NULL);
    heap_lock(h);
    heap_lock(heap_shared());
    for_each_class(h, forget_class, NULL);
    memset(h->own.classes, 0, sizeof h->own.classes); /* nobody has to look there */
    heap_unlock(heap_shared());
    memset(h->spares, 0, sizeof h->spares);
    atomic_store_explicit(&h->freed_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&h->life, HEAP_UNUSED, memory_order_relaxed);
    h->own.is_warm = warm_count < WARM_RECORDS;
    if (h->own.is_warm)
        warm_count++;
    else
        give_record_back(h);
    heap_unlock(h);
    h->next_unused = unused_ids;
    unused_ids = h->own.id;
}

/* --- Blocks of slabs ---------------------------------------------------------------------------------------------- */

static slab_t *open_locked(heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(explicit_is_id(h));
    if (!runs_fit_locked(h, (size_t)hk_class_info[cls].slab_slots << HK_SLOT_SHIFT))
        return NULL;
    slab_t *slab = heap_open_slab_locked(h, cls);
    if (slab != NULL)
        runs_note_peak_locked(h);
    return slab;
}

static bool was_used(const heap_t *h, unsigned cls) { return (h->own.classes[cls / 64] >> (cls % 64) & 1) != 0; }

/* The first few blocks of a class come from a slab of a slightly larger one: a small heap then has few slabs. Not where
 * sizes are checked exactly. */
static slab_t *borrow_locked(heap_t *h, unsigned cls, size_t align) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(cls < HK_CLASS_COUNT);
    heap_class_stats_t *stats = &h->class_stats[cls];
    if (stats->slab_count > 0 || stats->borrowed >= HEAP_BORROWED_MAX || hardened_is_on())
        return NULL;
    for (unsigned c = cls + 1; heap_may_borrow(cls, c); c++) {
        slab_t *slab = was_used(h, c) && hk_class_info[c].block_size % align == 0 ? heap_pick_locked(h, c) : NULL;
        if (slab == NULL)
            continue;
        stats->borrowed++;
        h->own.classes[cls / 64] |= UINT64_C(1) << (cls % 64);
        return slab;
    }
    return NULL;
}

static slab_t *room_locked(heap_t *h, unsigned cls, size_t align) {
    hk_assert(hk_lock_is_held(&h->lock));
    slab_t *slab = heap_pick_locked(h, cls);
    if (slab == NULL)
        slab = borrow_locked(h, cls, align);
    return slab != NULL ? slab : open_locked(h, cls);
}

void *explicit_take(heap_t *h, unsigned cls, size_t align, const void *beside, block_past_t *past) {
    hk_assert(cls < HK_CLASS_COUNT);
    void *block = NULL;
    heap_lock_here(h);
    hk_assert(explicit_is_id(h));
    slab_t *slab = runs_may_take_locked(h, beside) ? room_locked(h, cls, align) : NULL;
    if (slab != NULL) {
        block = slab_take_one(slab, past);
        map_set_live_shared(map_granule(block));
        h->own.classes[slab->cls / 64] |= UINT64_C(1) << (slab->cls % 64);
        h->class_stats[slab->cls].refilled++;
        heap_settle_locked(h, slab);
    }
    heap_unlock_here(h);
    return block;
}

/* The first of a few, fullest first, that no other thread's lease was filled from last; `gone`: or one that is gone. */
static slab_t *untaken_locked(const heap_t *h, unsigned cls, const lease_t *lease, bool gone) {
    hk_assert(hk_lock_is_held(&h->lock));
    unsigned looks = gone ? TAKER_LOOKS / 4 : TAKER_LOOKS;
    for (unsigned bin = 0; bin < HEAP_BINS; bin++)
        for (slot_t at = h->class_stats[cls].partial[bin]; at != 0 && looks > 0; at = slab_at(at)->next, looks--) {
            uint32_t taker = slab_at(at)->taker;
            if (taker == 0 || taker == lease->taker || (gone && !lease_has_taker_locked(h, taker)))
                return slab_at(at);
        }
    return NULL;
}

/* Fewer slabs of the class are nearly empty than there are leases, and than a few. */
static bool may_have_more_locked(const heap_t *h, unsigned cls) {
    hk_assert(hk_lock_is_held(&h->lock));
    slot_t at = h->class_stats[cls].partial[HEAP_BINS - 1];
    const lease_t *lease = h->own.leases;
    unsigned looks = TAKER_LOOKS;
    for (; at != 0 && lease != NULL && looks > 0; lease = lease->next, looks--)
        at = slab_at(at)->next;
    return lease != NULL && looks > 0;
}

/* A slab with room. For a thread that asks for small blocks again and again: one that is no other thread's, or a new
 * one (LEASE-4). For others, and where memory is short, the one that `heap_pick_locked` finds. NULL: none has room. */
static slab_t *pick_for_locked(heap_t *h, unsigned cls, const lease_t *lease, bool is_frequent) {
    hk_assert(hk_lock_is_held(&h->lock));
    slab_t *any = heap_pick_locked(h, cls);
    if (any == NULL || any->taker == 0 || any->taker == lease->taker || !is_frequent || cls >= HK_TINY_CLASSES)
        return any;
    slab_t *slab = untaken_locked(h, cls, lease, false);
    if (slab == NULL)
        slab = lease_slab_locked(lease, cls);
    if (slab == NULL || slab->free_count == 0)
        slab = untaken_locked(h, cls, lease, true);
    if (slab == NULL && may_have_more_locked(h, cls))
        slab = open_locked(h, cls);
    return slab != NULL ? slab : any;
}

static unsigned refill_locked(heap_t *h, unsigned cls, lease_t *lease) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(lease_count(lease, cls, lease->counts[cls]) == 0);
    unsigned want = (unsigned)hk_min(2u * lease->wants[cls] + 1, hk_max(lease->rooms[cls] / 2u, 1));
    slab_t *slab = pick_for_locked(h, cls, lease, want == lease->wants[cls]);
    if (slab == NULL)
        return 0;
    lease_note_slab_locked(lease, slab);
    lease->wants[cls] = (uint8_t)want;
    unsigned got = (unsigned)hk_min(want, slab->free_count);
    lease_begin(lease, cls);
    (void)slab_take(slab, lease->blocks + lease_last(lease->counts[cls]) + 1 + got, got);
    h->class_stats[cls].refilled += got;
    heap_settle_locked(h, slab);
    return got;
}

void *explicit_refill(heap_t *thread, heap_t *h, unsigned cls) {
    hk_assert(explicit_is_id(h) && !hardened_is_on() && cls < HK_CLASS_COUNT);
    if (!lease_bind(thread, h))
        return NULL;
    lease_t *lease = thread->front.lease;
    heap_lock(h);
    unsigned got = lease->heap == h ? refill_locked(h, cls, lease) : 0;
    hk_write(lease->counts[cls], lease->counts[cls] + got);
    heap_unlock(h);
    return got > 0 ? lease_take(h, hk_class_info[cls].block_size) : NULL;
}

bool explicit_give(const void *block, unsigned cls, bool *double_free) {
    const remote_entry_t word = heap_remote_word(block, cls);
    heap_t *h = runs_lock_owner(block);
    if (h == NULL)
        return false;
    *double_free = heap_remote_give_locked(h, &word) != 0;
    heap_unlock_here(h);
    return true;
}

/* --- Everything at once ------------------------------------------------------------------------------------------- */

static size_t close_list_locked(heap_t *h, slot_t *head) {
    hk_assert(hk_lock_is_held(&h->lock));
    size_t bytes = 0;
    while (*head != 0) {
        slab_t *slab = slab_at(*head);
        bytes += (size_t)(slab->block_count - slab->free_count) * hk_class_info[slab->cls].block_size;
        heap_remove_locked(h, slab);
        if (hk_unlikely(hardened_is_on())) /* SEAL-1 */
            sys_purge(slab_base(slab), (size_t)hk_class_info[slab->cls].slab_slots << HK_SLOT_SHIFT);
        slab_close_live(slab);
        hk_count(slabs_retired);
    }
    return bytes;
}

static void close_class_locked(heap_t *h, unsigned cls, void *bytes) {
    hk_assert(hk_lock_is_held(&h->lock));
    for (unsigned bin = 0; bin < HEAP_BINS; bin++)
        *(size_t *)bytes += close_list_locked(h, &h->class_stats[cls].partial[bin]);
}

size_t explicit_close_all(heap_t *h) {
    hk_assert(explicit_is_id(h));
    size_t bytes = 0;
    heap_lock(h);
    heap_drain_locked(h); /* nothing, but after mistakes */
    bytes -= lease_revoke_all_locked(h, LEASE_DROPPED, NULL);
    for_each_class(h, close_class_locked, &bytes);
    bytes += close_list_locked(h, &h->full);
    bytes += runs_close_locked(h);
    heap_unlock(h);
    return bytes;
}

/* Blocks that are not free in their slab, by class. */
static void add_list(uint64_t used[HK_CLASS_COUNT], slot_t at) {
    for (; at != 0; at = slab_at(at)->next)
        used[slab_at(at)->cls] += (uint64_t)slab_at(at)->block_count - slab_at(at)->free_count;
}

static void add_class(heap_t *h, unsigned cls, void *used) {
    for (unsigned bin = 0; bin < HEAP_BINS; bin++)
        add_list(used, h->class_stats[cls].partial[bin]);
}

static void count_used_locked(heap_t *h, uint64_t used[HK_CLASS_COUNT]) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(explicit_is_id(h));
    memset(used, 0, HK_CLASS_COUNT * sizeof *used);
    for_each_class(h, add_class, used);
    add_list(used, h->full);
}

static void leave_class_locked(heap_t *h, unsigned cls, void *live) {
    hk_assert(hk_lock_is_held(&h->lock));
    heap_lock(heap_shared());
    move_counts_locked(h, cls, ((const uint64_t *)live)[cls]);
    heap_unlock(heap_shared());
}

void explicit_hand_over_locked(heap_t *h) {
    hk_assert(explicit_is_id(h));
    uint64_t live[HK_CLASS_COUNT];
    heap_lock(h);
    count_used_locked(h, live);
    (void)lease_revoke_all_locked(h, LEASE_RELEASED, live);
    for_each_class(h, leave_class_locked, live);
    heap_hand_over_locked(h);
    runs_leave_locked(h);
    heap_unlock(h);
}

/* --- What there is ------------------------------------------------------------------------------------------------ */

void explicit_count_locked(heap_t *h, explicit_counts_t *counts) {
    hk_assert(hk_lock_is_held(&h->lock));
    count_used_locked(h, counts->live);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        uint64_t pushes, leased = lease_count_locked(h, cls, &pushes);
        counts->allocs[cls] = was_used(h, cls) ? h->class_stats[cls].refilled + pushes - leased : 0;
        counts->live[cls] -= leased;
        counts->leased[cls] = leased;
    }
}

void explicit_totals(heap_t *h, heap_totals_t *totals) {
    hk_assert(explicit_is_id(h));
    explicit_counts_t counts;
    *totals = (heap_totals_t){0};
    heap_lock(h);
    explicit_count_locked(h, &counts);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        totals->alloc_count += counts.allocs[cls];
        totals->live_blocks += counts.live[cls];
        totals->live_bytes += counts.live[cls] * hk_class_info[cls].block_size;
    }
    runs_add_locked(h, totals);
    heap_unlock(h);
}
