/* SPDX-License-Identifier: MIT */
#include "heap/lease.h"

#include "base/bits.h"
#include "core/panic.h"
#include "heap/messages.h"
#include "heap/remote.h"
#include "map/meta.h"
#include "sys/clock.h"

#include <string.h>

enum { ASKS_MIN = 16 }; /* of a heap in a row, until the thread has a lease of it */

/* A lease that was BOUND: its blocks are still there, and the program may ask a heap that is NULL for one. */
static heap_t *const nobody = (heap_t *)(uintptr_t)1;

/* NULL: it is not BOUND. */
static heap_t *heap_of(const lease_t *lease) {
    /* Acquire: pairs with the release in unlink_locked; who finds no heap finds the fate. */
    heap_t *h = hk_read_acquire(lease->heap);
    return h != nobody ? h : NULL;
}

/* A word with blocks that were free in their slab already, to be reported without a lock; bits 0: none. */
typedef struct twice {
    remote_entry_t word;
    unsigned cls;
} twice_t;

static void note(twice_t *twice, const remote_entry_t *word, unsigned cls, uint64_t double_frees) {
    if (hk_unlikely(double_frees != 0))
        *twice = (twice_t){{word->key, double_frees}, cls};
}

static void report(const twice_t *twice) {
    if (hk_unlikely(twice->word.bits != 0))
        hk_misuse_found("double free of", heap_remote_block(&twice->word, twice->cls, twice->word.bits),
                        "%u-byte block, free", hk_class_info[twice->cls].block_size);
}

/* Out of the lease before it is in the slab: the child of a fork in between loses it rather than having it twice. */
static remote_entry_t pop(lease_t *lease, unsigned cls) {
    uint64_t counts = lease->counts[cls];
    hk_assert(lease_count(lease, cls, counts) > 0);
    const remote_entry_t word = heap_remote_word(map_granule_address(lease->blocks[lease_last(counts)]), cls);
    hk_write_release(lease->counts[cls], counts - 1);
    return word;
}

/* Back to slabs of the heap, down to `keep` blocks. */
static void give_back_locked(heap_t *h, lease_t *lease, unsigned cls, unsigned keep, twice_t *twice) {
    hk_assert(hk_lock_is_held(&h->lock) && lease->heap == h);
    heap_class_stats_t *stats = &h->class_stats[cls];
    stats->refilled += lease_pushes(lease->counts[cls]);
    hk_write(lease->counts[cls], lease_last(lease->counts[cls]));
    while (lease_count(lease, cls, lease->counts[cls]) > keep) {
        const remote_entry_t word = pop(lease, cls);
        note(twice, &word, cls, heap_remote_give_locked(h, &word));
        stats->refilled--;
    }
}

slab_t *lease_slab_locked(const lease_t *lease, unsigned cls) {
    hk_assert(hk_lock_is_held(&lease->heap->lock));
    slot_t slot = lease->slabs[cls];
    slab_t *slab = slab_at(slot);
    /* The entry first: it is the heap's own as long as the slab is. */
    return slot != 0 && map_entry(slot) == (lease->tag | cls) && slab->taker == lease->taker ? slab : NULL;
}

void lease_note_slab_locked(lease_t *lease, slab_t *slab) {
    hk_assert(hk_lock_is_held(&lease->heap->lock));
    slab->taker = lease->taker;
    lease->slabs[slab->cls] = slab_slot(slab);
}

bool lease_has_taker_locked(const heap_t *h, uint32_t taker) {
    hk_assert(hk_lock_is_held(&h->lock));
    const lease_t *lease = h->own.leases;
    while (lease != NULL && lease->taker != taker)
        lease = lease->next;
    return lease != NULL;
}

/* --- Bound and free ----------------------------------------------------------------------------------------------- */

static void link_locked(heap_t *h, lease_t *lease) {
    hk_assert(hk_lock_is_held(&h->lock));
    lease->previous = NULL;
    lease->next = h->own.leases;
    if (lease->next != NULL)
        lease->next->previous = lease;
    h->own.leases = lease;
    hk_write(lease->heap, h);
    hk_write(lease->tag, h->own.tag);
}

/* The fate is there before the heap is not. */
static void unlink_locked(heap_t *h, lease_t *lease, lease_fate_t fate) {
    hk_assert(hk_lock_is_held(&h->lock));
    if (lease->previous != NULL)
        lease->previous->next = lease->next;
    else
        h->own.leases = lease->next;
    if (lease->next != NULL)
        lease->next->previous = lease->previous;
    hk_write(lease->fate, fate);
    hk_write(lease->tag, HK_MAP_NO_TAG);
    /* Release: pairs with the acquire in heap_of. */
    hk_write_release(lease->heap, nobody);
}

/* Of a lease that was revoked. Frees that came after a release were counted as live blocks of the shared heap. */
static void settle(heap_t *thread, lease_t *lease) {
    hk_assert(heap_of(lease) == NULL);
    bool released = hk_read(lease->fate) == LEASE_RELEASED;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        unsigned count = lease_count(lease, cls, lease->counts[cls]);
        if (released && count > lease->left_with[cls])
            hk_add(thread->class_stats[cls].freed_remote, count - lease->left_with[cls]);
        while (released && lease_count(lease, cls, lease->counts[cls]) > 0) {
            twice_t twice = {0};
            const remote_entry_t word = pop(lease, cls);
            note(&twice, &word, cls, heap_remote_give(&word));
            report(&twice);
        }
        hk_write(lease->counts[cls], 0);
    }
    memset(lease->wants, 0, sizeof lease->wants);
    hk_write(lease->fate, LEASE_GOES_ON);
}

static void give_all_back(heap_t *h, lease_t *lease) {
    twice_t twice = {0};
    heap_lock(h);
    bool bound = lease->heap == h; /* who ends the heap may be quicker */
    for (unsigned cls = 0; cls < HK_CLASS_COUNT && bound; cls++)
        give_back_locked(h, lease, cls, 0, &twice);
    if (bound)
        unlink_locked(h, lease, LEASE_GOES_ON);
    heap_unlock(h);
    memset(lease->wants, 0, sizeof lease->wants);
    report(&twice);
}

static void unbind(heap_t *thread, lease_t *lease) {
    heap_t *h = heap_of(lease);
    if (h != NULL)
        give_all_back(h, lease);
    if (hk_read(lease->fate) != LEASE_GOES_ON)
        settle(thread, lease);
}

/* Live bits of small blocks need locked operations, those of others need none. Whose sizes lie on both sides pays for
 * branches that are guessed wrong, about 15 cycles each. A locked operation takes 6 on AMD's Zen 4: there all tiny
 * classes use them. On Intel's processors it takes 20. Found out once. */
static unsigned first_apart(void) {
    enum { COUNT = 2048, CHEAP_US = 8 };
    static _Atomic unsigned known;
    unsigned cls = atomic_load_explicit(&known, memory_order_relaxed);
    if (cls != 0)
        return cls;
    uint64_t words[8] = {0}, from = sys_now_us();
    for (unsigned i = 0; i < COUNT; i++)
        (void)__atomic_fetch_or(&words[i % 8], i, __ATOMIC_RELAXED);
    cls = sys_now_us() - from <= CHEAP_US ? HK_TINY_CLASSES : HK_MAP_CLASS_APART;
    atomic_store_explicit(&known, cls, memory_order_relaxed);
    return cls;
}

static lease_t *lease_of(heap_t *thread) {
    lease_t *lease = thread->front.lease;
    if (hk_likely(lease != NULL))
        return lease;
    lease = meta_alloc(sizeof *lease);
    if (lease == NULL)
        return NULL;
    memset(lease, 0, offsetof(lease_t, blocks) + sizeof lease->blocks[0]);
    lease->tag = HK_MAP_NO_TAG;
    lease->taker = thread->front.id;
    lease->apart_from = first_apart();
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        lease->rooms[cls] = (uint8_t)hk_max(hk_min(LEASE_BYTES / hk_class_info[cls].block_size, LEASE_BLOCKS), 1);
    /* Release: for the child of a fork, which finds it whole. */
    hk_write_release(thread->front.lease, lease);
    return lease;
}

static bool is_asked_often(lease_t *lease, const heap_t *h) {
    lease->streak = lease->asked == h ? (uint32_t)hk_min(lease->streak + 1, ASKS_MIN) : 0;
    lease->asked = h;
    return lease->streak == ASKS_MIN;
}

bool lease_bind(heap_t *thread, heap_t *h) {
    lease_t *lease = h->own.limit_bytes == 0 ? lease_of(thread) : NULL;
    if (lease == NULL)
        return false;
    if (heap_of(lease) == h)
        return true;
    if (!is_asked_often(lease, h))
        return false;
    unbind(thread, lease);
    heap_lock(h);
    link_locked(h, lease);
    heap_unlock(h);
    return true;
}

void lease_end(heap_t *thread) {
    lease_t *lease = thread->front.lease;
    if (hk_likely(lease == NULL))
        return;
    unbind(thread, lease);
    hk_write(thread->front.lease, NULL);
    meta_free(lease, sizeof *lease);
}

/* --- Full --------------------------------------------------------------------------------------------------------- */

void lease_begin(lease_t *lease, unsigned cls) {
    hk_assert(cls < HK_CLASS_COUNT);
    if (hk_likely(lease_last(lease->counts[cls]) != 0))
        return;
    unsigned bottom = lease_bottom(lease, cls);
    lease->blocks[bottom] = 0;
    hk_write(lease->counts[cls], lease->counts[cls] + bottom);
}

void lease_push(lease_t *lease, unsigned cls, granule_t granule) {
    uint64_t counts = lease->counts[cls];
    hk_assert(cls < HK_CLASS_COUNT && lease_last(counts) % LEASE_PLACES != 0);
    lease->blocks[lease_last(counts) + 1] = granule;
    hk_write_release(lease->counts[cls], counts + LEASE_PUSH); /* as in lease_put */
}

bool lease_make_room(heap_t *thread, uint32_t entry) {
    lease_t *lease = thread->front.lease;
    if (lease == NULL || entry - hk_read(lease->tag) >= HK_CLASS_COUNT)
        return false;
    unsigned cls = entry & HK_MAP_CLASS_MAX;
    heap_t *h = heap_by_id(entry >> 8);
    twice_t twice = {0};
    heap_lock(h);
    bool bound = lease->heap == h;
    if (bound)
        lease_begin(lease, cls);
    if (bound && lease_last(lease->counts[cls]) % LEASE_PLACES == 0)
        give_back_locked(h, lease, cls, lease->rooms[cls] / 2, &twice);
    heap_unlock(h);
    report(&twice);
    return bound;
}

/* --- The heap's side ---------------------------------------------------------------------------------------------- */

static size_t revoke_locked(heap_t *h, lease_t *lease, lease_fate_t fate, uint64_t *used) {
    hk_assert(hk_lock_is_held(&h->lock) && lease->heap == h);
    size_t bytes = 0;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        /* A free of this moment is counted here, or by its thread (settle). */
        uint64_t counts = hk_read(lease->counts[cls]);
        unsigned count = lease_count(lease, cls, counts);
        lease->left_with[cls] = (uint8_t)count;
        h->class_stats[cls].refilled += lease_pushes(counts) - count;
        bytes += (size_t)count * hk_class_info[cls].block_size;
        if (used != NULL)
            used[cls] -= count;
    }
    unlink_locked(h, lease, fate);
    return bytes;
}

size_t lease_revoke_all_locked(heap_t *h, lease_fate_t fate, uint64_t used[HK_CLASS_COUNT]) {
    hk_assert(hk_lock_is_held(&h->lock));
    size_t bytes = 0;
    while (h->own.leases != NULL)
        bytes += revoke_locked(h, h->own.leases, fate, used);
    return bytes;
}

uint64_t lease_count_locked(const heap_t *h, unsigned cls, uint64_t *pushes) {
    hk_assert(hk_lock_is_held(&h->lock));
    uint64_t count = 0;
    *pushes = 0;
    for (const lease_t *lease = h->own.leases; lease != NULL; lease = lease->next) {
        uint64_t counts = hk_read(lease->counts[cls]);
        count += lease_count(lease, cls, counts);
        *pushes += lease_pushes(counts);
    }
    return count;
}
