/* SPDX-License-Identifier: MIT
 *
 * remote.h: frees of blocks that another heap owns, gathered in a table of the freeing thread's heap. How they go on
 * says remote.c.
 *
 * All but the drain is for the heap's thread, or for anybody once the thread is gone.
 */
#pragma once

#include "heap/messages.h"

/* Posts what entry `at` of the remote table holds and gives it to the word `key`. */
void heap_remote_claim(heap_t *h, unsigned at, uint64_t key);

/* Gives the word's blocks to their slab under its owner's lock. Returns those that are free already, or of no slab
 * any more: double frees. Any thread; the caller holds no heap's lock. */
uint64_t heap_remote_give(const remote_entry_t *word);

/* Posts everything in the remote table; and for a thread that is over, so that the heap's next one begins anew. */
void heap_remote_post_all(heap_t *h);
void heap_remote_post_last(heap_t *h);

/* The only entry that may be the key's. */
HK_INLINE remote_entry_t *heap_remote_entry(heap_t *h, uint64_t key) {
    _Static_assert(HEAP_REMOTE_ENTRIES == 256, "the hash keeps 8 bits");
    return &h->remote_table[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
}

/* Notes the block as heap_remote_note does, but only where the entry is its word's already. False also when it was
 * noted. */
HK_INLINE bool heap_remote_note_in_place(heap_t *h, const void *base, unsigned cls, unsigned index) {
    uint64_t key = heap_remote_key(base, index), bit = UINT64_C(1) << (index % 64);
    remote_entry_t *entry = heap_remote_entry(h, key);
    if (hk_unlikely(entry->key != key || (entry->bits & bit) != 0))
        return false;
    entry->bits |= bit;
    h->remote_pending_bytes += hk_class_info[cls].block_size;
    return true;
}

/* Notes that block `index` of the slab at `base`, of class `cls` and of another heap, goes back to it. False: it was
 * noted already (double free). The thread's own heap only. */
HK_INLINE bool heap_remote_note(heap_t *h, const void *base, unsigned cls, unsigned index) {
    uint64_t key = heap_remote_key(base, index);
    remote_entry_t *entry = heap_remote_entry(h, key);
    if (entry->key != key)
        heap_remote_claim(h, (unsigned)(entry - h->remote_table), key);
    return heap_remote_note_in_place(h, base, cls, index);
}

HK_INLINE bool heap_remote_is_much(const heap_t *h) {
    return h->remote_pending_bytes > HEAP_REMOTE_PENDING_BYTES + h->remote_earned_bytes;
}

HK_INLINE void heap_remote_post_much(heap_t *h) {
    if (hk_unlikely(heap_remote_is_much(h)))
        heap_remote_post_all(h);
}

/* Notes a block that this thread frees. */
HK_INLINE bool heap_remote_add(heap_t *h, const void *base, unsigned cls, unsigned index) {
    if (hk_unlikely(!heap_remote_note(h, base, cls, index)))
        return false;
    hk_add(h->class_stats[cls].freed_remote, 1);
    heap_remote_post_much(h);
    return true;
}
