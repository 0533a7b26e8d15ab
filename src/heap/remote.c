/* SPDX-License-Identifier: MIT
 *
 * remote.c: frees of blocks that another heap owns.
 *
 * The freeing thread gathers them as bits of (slab, word) in a small table of its own; an entry goes into a message for the
 * slab's owner (messages.c) when another word needs its place, and all are sent when enough has gathered, on every tick and at
 * thread exit. Without a message, as without a heap, the bits are posted to the slab itself.
 */
#include "heap/heap.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/panic.h"
#include "heap/fork.h"
#include "heap/messages.h"

/* Announced slabs on their way to the list of one heap. They are on no list, and stay announced until the owner drains
 * them, so each is pushed once. */
typedef struct chain {
    heap_t *owner;
    slab_t *first, *last;
} chain_t;

/* One exchange on the line that owner and freeing threads share, for all slabs of the chain. A reader that takes the list
 * by exchange sees every remote_next: release here, acquire there. */
static void push_chain(chain_t *chain) {
    if (chain->first == NULL)
        return;
    _Atomic slot_t *list = &chain->owner->remote_head;
    slot_t head = atomic_load_explicit(list, memory_order_relaxed);
    do
        atomic_store_explicit(&chain->last->remote_next, head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(list, &head, slab_slot(chain->first), memory_order_release,
                                                  memory_order_relaxed));
    chain->first = NULL;
}

static void chain_slab(chain_t *chain, slab_t *slab) {
    /* Acquire: pairs with the release in slab_set_owner. */
    uint32_t owner = atomic_load_explicit(&slab->owner, memory_order_acquire);
    heap_t *h = heap_by_id(owner == HK_OWNER_NONE ? HK_OWNER_POOL : owner);
    if (chain->first != NULL && chain->owner != h)
        push_chain(chain);
    if (chain->first == NULL)
        chain->last = slab;
    else
        atomic_store_explicit(&slab->remote_next, slab_slot(chain->first), memory_order_relaxed);
    chain->owner = h;
    chain->first = slab;
}

static void push_to_owner(slab_t *slab) {
    chain_t chain = {.first = NULL};
    chain_slab(&chain, slab);
    push_chain(&chain);
}

uint64_t heap_remote_post_word(slab_t *slab, unsigned word, uint64_t bits) {
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

static void post_entry(heap_t *h, remote_entry_t *entry, chain_t *chain) {
    const remote_entry_t word = *entry;
    /* Cleared first: a fork in between loses the bits in the child rather than posting them twice. The releases in message_add and
     * slab_post see to it. */
    hk_write(entry->bits, 0);
    h->remote_batches++;
    if (hk_likely(message_add(h, &word)))
        return;
    slab_t *slab = heap_remote_slab(&word);
    bool push;
    uint64_t doubled = slab_post(slab, word.key & 63, word.bits, &push);
    if (push)
        chain_slab(chain, slab);
    if (hk_unlikely(doubled != 0))
        report_doubled(slab, word.key & 63, doubled);
}

bool heap_remote_post_one(slab_t *slab, unsigned index) {
    uint64_t bit = UINT64_C(1) << (index % 64);
    return heap_remote_post_word(slab, index / 64, bit) == 0;
}

void heap_remote_claim(heap_t *h, unsigned at, uint64_t key) {
    remote_entry_t *entry = &h->remote_table[at];
    chain_t chain = {.first = NULL};
    if (entry->bits != 0 && fork_attend())
        post_entry(h, entry, &chain);
    entry->bits = 0; /* of a stranded process: lost */
    push_chain(&chain);
    h->remote_used[at / 64] |= UINT64_C(1) << (at % 64);
    /* For the child of a fork: never the bits of one word with the key of another, before nor after. */
    hk_write_release(entry->key, key);
    hk_write_barrier();
}

static void post_used(heap_t *h, unsigned word, chain_t *chain) {
    for (uint64_t used = h->remote_used[word]; used != 0; used &= used - 1) {
        remote_entry_t *entry = &h->remote_table[word * 64 + hk_ctz64(used)];
        if (entry->bits != 0)
            post_entry(h, entry, chain);
        hk_write_release(entry->key, 0); /* as in heap_remote_claim */
    }
    hk_write_release(h->remote_used[word], 0); /* for the child of a fork: entries still held stay marked */
}

void heap_remote_post_all(heap_t *h) {
    if (!fork_attend())
        return;
    chain_t chain = {.first = NULL};
    for (unsigned word = 0; word < HEAP_REMOTE_ENTRIES / 64; word++)
        post_used(h, word, &chain);
    push_chain(&chain);
    messages_send(h);
    hk_count_by(remote_batches, h->remote_batches);
    h->remote_batches = 0;
    h->posted_bytes += h->remote_pending_bytes;
    h->remote_pending_bytes = 0;
    if (heap_posted_much(h))
        heap_memory_freed_much(); /* the owners may be asleep */
}

/* The slab changed owner after it was pushed here. A closed slab was announced by a double free that raced with its last
 * real free: nothing of it is kept. */
static void pass_on(slab_t *slab, uint32_t owner) {
    if (owner == HK_OWNER_NONE)
        slab_discard_remote(slab);
    else
        push_to_owner(slab);
}

/* Returns the number of slabs. */
static unsigned drain_list_locked(heap_t *h) {
    if (hk_likely(atomic_load_explicit(&h->remote_head, memory_order_relaxed) == 0))
        return 0;
    unsigned drained = 0, doubled = 0;
    /* Acquire: pairs with the release in push_chain. */
    slot_t at = atomic_exchange_explicit(&h->remote_head, 0, memory_order_acquire);
    while (at != 0) {
        slab_t *slab = slab_at(at);
        /* Read before the drain: afterwards a poster may push the slab again. */
        at = atomic_load_explicit(&slab->remote_next, memory_order_relaxed);
        __builtin_prefetch(&slab_at(at)->summary, 1);
        uint32_t owner = atomic_load_explicit(&slab->owner, memory_order_relaxed);
        if (owner != h->front.id) {
            pass_on(slab, owner);
            continue;
        }
        unsigned count = slab_drain(slab, &doubled), cls = slab->cls;
        if (count > 0)
            heap_settle_locked(h, slab);
        heap_count_freed_locked(h, cls, count);
        drained++;
    }
    h->doubled.count += doubled;
    return drained;
}

void heap_drain_locked(heap_t *h) {
    unsigned drained = messages_open_locked(h);
    drained += drain_list_locked(h);
    if (drained > 0)
        hk_count_by(remote_drains, drained);
}
