/* SPDX-License-Identifier: MIT
 *
 * remote.c: frees of blocks that another heap owns.
 *
 * The freeing thread gathers them as bits of (slab, word) in a small table of its own; an entry is posted with one atomic
 * operation when another word needs its place, when enough has gathered, on every tick and at thread exit.
 */
#include "heap/heap.h"

#include "core/counters.h"
#include "core/panic.h"

enum { REMOTE_PENDING_BYTES_MAX = 256 * 1024 };

/* Puts an announced slab on its owner's list. The slab is on no list, and stays announced until the owner drains it, so
 * it is pushed once. A reader that takes the list by exchange sees remote_next: release here, acquire there. */
static void push_to_owner(slab_t *slab) {
    /* Acquire: pairs with the release in slab_set_owner. */
    uint32_t owner = atomic_load_explicit(&slab->owner, memory_order_acquire);
    heap_t *h = heap_by_id(owner == HK_OWNER_NONE ? HK_OWNER_POOL : owner);
    slot_t head = atomic_load_explicit(&h->remote_head, memory_order_relaxed);
    do
        atomic_store_explicit(&slab->remote_next, head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&h->remote_head, &head, slab_slot(slab), memory_order_release,
                                                  memory_order_relaxed));
}

static uint64_t post(slab_t *slab, unsigned word, uint64_t bits) {
    bool push;
    uint64_t doubled = slab_post(slab, word, bits, &push);
    if (push)
        push_to_owner(slab);
    return doubled;
}

static void report_doubled(slab_t *slab, unsigned word, uint64_t bits) {
    size_t size = hk_class_info[slab->cls].block_size;
    for (; bits != 0; bits &= bits - 1) {
        char *block = slab_base(slab) + (word * 64 + hk_ctz64(bits)) * size;
        hk_misuse("double free of", block, NULL, "%zu-byte block, free", size);
    }
}

static void post_entry(remote_entry_t *entry) {
    slab_t *slab = slab_at((slot_t)(entry->key >> 6));
    unsigned word = entry->key & 63;
    uint64_t bits = entry->bits;
    /* Cleared first: a fork in between loses the bits in the child rather than posting them twice. */
    entry->bits = 0;
    atomic_signal_fence(memory_order_release);
    uint64_t doubled = post(slab, word, bits);
    hk_count(remote_batches);
    if (hk_unlikely(doubled != 0))
        report_doubled(slab, word, doubled);
}

bool heap_remote_post_one(slab_t *slab, unsigned index) {
    uint64_t bit = UINT64_C(1) << (index % 64);
    return post(slab, index / 64, bit) == 0;
}

void heap_remote_post_word(slab_t *slab, unsigned word, uint64_t bits) { (void)post(slab, word, bits); }

bool heap_remote_add(heap_t *h, slab_t *slab, unsigned cls, unsigned index) {
    uint64_t key = (uint64_t)slab_slot(slab) << 6 | index / 64;
    uint64_t bit = UINT64_C(1) << (index % 64);
    remote_entry_t *entry = &h->remote_table[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    _Static_assert(HEAP_REMOTE_ENTRIES == 256, "the hash above keeps 8 bits");
    if (entry->bits != 0 && entry->key != key)
        post_entry(entry);
    if (entry->bits & bit)
        return false;
    entry->key = key;
    atomic_signal_fence(memory_order_release); /* for the child of a fork: the key before the bits */
    entry->bits |= bit;
    hk_add(h->class_stats[cls].freed_remote, 1);
    h->remote_pending_bytes += hk_class_info[cls].block_size;
    if (h->remote_pending_bytes > REMOTE_PENDING_BYTES_MAX)
        heap_remote_post_all(h);
    return true;
}

void heap_remote_post_all(heap_t *h) {
    for (unsigned i = 0; i < HEAP_REMOTE_ENTRIES; i++)
        if (h->remote_table[i].bits != 0)
            post_entry(&h->remote_table[i]);
    h->posted_bytes += h->remote_pending_bytes;
    h->remote_pending_bytes = 0;
    if (h->posted_bytes < HEAP_WORTH_BYTES)
        return;
    /* The owners may be asleep. */
    h->posted_bytes = 0;
    heap_memory_freed_much();
}

/* The slab changed owner after it was pushed here. A closed slab was announced by a double free that raced with its last
 * real free: nothing of it is kept. */
static void pass_on(slab_t *slab, uint32_t owner) {
    if (owner == HK_OWNER_NONE)
        slab_discard_remote(slab);
    else
        push_to_owner(slab);
}

void heap_drain_locked(heap_t *h) {
    if (hk_likely(atomic_load_explicit(&h->remote_head, memory_order_relaxed) == 0))
        return;
    unsigned doubled = 0;
    /* Acquire: pairs with the release in push_to_owner. */
    slot_t at = atomic_exchange_explicit(&h->remote_head, 0, memory_order_acquire);
    while (at != 0) {
        slab_t *slab = slab_at(at);
        /* Read before the drain: afterwards a poster may push the slab again. */
        at = atomic_load_explicit(&slab->remote_next, memory_order_relaxed);
        uint32_t owner = atomic_load_explicit(&slab->owner, memory_order_relaxed);
        if (owner != h->front.id) {
            pass_on(slab, owner);
            continue;
        }
        unsigned count = slab_drain(slab, &doubled), cls = slab->cls;
        if (count > 0)
            heap_settle_locked(h, slab);
        heap_count_freed_locked(h, cls, count);
        hk_count(remote_drains);
    }
    if (hk_unlikely(doubled > 0))
        h->doubled_count += doubled;
}
