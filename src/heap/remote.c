/* SPDX-License-Identifier: MIT
 *
 * remote.c: frees of blocks that another heap owns.
 *
 * The freeing thread gathers them as bits of (slab, word) in a small table of its own; an entry goes into a message for
 * the slab's owner (messages.c) when another word needs its place, and all are sent when enough has gathered, on every
 * tick and at thread exit. What no message takes goes into its slab under the owner's lock.
 */
#include "heap/remote.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/panic.h"
#include "heap/budget.h"
#include "heap/messages.h"
#include "heap/wake.h"

enum {
    EARNED_SHARE = 128,     /* a thread may hold back so small a part of what it has given back, */
    EARNED_MAX = 256 << 10, /* ... so many bytes at the most, and its part of what all may */
};

/* Whoever holds the lock may be stopped for as long as it likes (a debugger, a collector that stops the world, a
 * preempted thread), or be what this thread is waited for by: so a lock that is taken is waited for only where
 * memory is out. */
static heap_t *lock_owner(uint32_t owner, const remote_entry_t *word) {
    heap_t *h = heap_by_id(owner);
    if (hk_likely(hk_try_lock(&h->lock)))
        return h;
    if (message_send_alone(owner, word))
        return NULL;
    hk_lock(&h->lock);
    return h;
}

uint64_t heap_remote_give(const remote_entry_t *word) {
    hk_assert(word->bits != 0);
    for (uint32_t owner; (owner = heap_remote_owner(word)) != HK_OWNER_NONE;) {
        heap_t *h = lock_owner(owner, word);
        if (h == NULL)
            return 0;
        /* Under the lock of its owner a slab keeps it; between the look and the lock it may have got another. */
        bool still = heap_remote_owner(word) == owner;
        uint64_t double_frees = still ? heap_remote_give_locked(h, word) : 0;
        hk_unlock(&h->lock);
        if (hk_likely(still))
            return double_frees;
    }
    return word->bits; /* the slab is gone */
}

static void report_double_frees(const remote_entry_t *word, uint64_t bits) {
    hk_assert(bits != 0);
    unsigned cls = heap_remote_slab(word)->cls;
    for (; bits != 0; bits &= bits - 1)
        hk_misuse_found("double free of", heap_remote_block(word, cls, bits), "%u-byte block, free",
                        hk_class_info[cls].block_size);
}

static void post_entry(heap_t *h, remote_entry_t *entry) {
    hk_assert(entry->key != 0 && entry->bits != 0);
    const remote_entry_t word = *entry;
    /* Cleared first: a fork in between loses the bits in the child rather than posting them twice. The release in
     * message_add, and the locks, which a fork takes, see to it. */
    hk_write(entry->bits, 0);
    h->remote_batches++;
    uint64_t double_frees = hk_likely(message_add(h, &word)) ? 0 : heap_remote_give(&word);
    if (hk_unlikely(double_frees != 0))
        report_double_frees(&word, double_frees);
}

void heap_remote_claim(heap_t *h, unsigned at, uint64_t key) {
    hk_assert(at < HEAP_REMOTE_ENTRIES);
    hk_assert(key == 0 || heap_remote_entry(h, key) == &h->remote_table[at]);
    remote_entry_t *entry = &h->remote_table[at];
    if (entry->bits != 0)
        post_entry(h, entry);
    h->remote_used[at / 64] |= UINT64_C(1) << (at % 64);
    /* For the child of a fork: never the bits of one word with the key of another, before nor after. */
    hk_write_release(entry->key, key);
    hk_write_barrier();
}

static void post_used(heap_t *h, unsigned word) {
    for (uint64_t used = h->remote_used[word]; used != 0; used &= used - 1) {
        remote_entry_t *entry = &h->remote_table[word * 64 + hk_ctz64(used)];
        if (entry->bits != 0)
            post_entry(h, entry);
        hk_write_release(entry->key, 0); /* as in heap_remote_claim */
    }
    hk_write_release(h->remote_used[word], 0); /* for the child of a fork: entries still held stay marked */
}

/* A thread that goes to sleep keeps what it holds back, and each block of it a page: so one that gave back little may
 * hold back little, and many threads less than few. */
static void earn(heap_t *h) {
    size_t earned = h->remote_earned_bytes + h->remote_pending_bytes / EARNED_SHARE;
    h->remote_earned_bytes = (uint32_t)hk_min(earned, hk_min(EARNED_MAX, budget_passed_now()));
}

void heap_remote_post_all(heap_t *h) {
    for (unsigned word = 0; word < HEAP_REMOTE_ENTRIES / 64; word++)
        post_used(h, word);
    messages_send(h);
    hk_count_by(remote_batches, h->remote_batches);
    h->remote_batches = 0;
    h->posted_bytes += h->remote_pending_bytes;
    earn(h);
    h->remote_pending_bytes = 0;
    if (heap_posted_much(h))
        heap_memory_freed_much(); /* the owners may be asleep */
}

void heap_remote_post_last(heap_t *h) {
    heap_remote_post_all(h);
    h->remote_earned_bytes = 0;
}
