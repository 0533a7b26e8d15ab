/* SPDX-License-Identifier: MIT
 *
 * messages.h: words of remote frees, sent to the heap that owns their slabs, many at a time.
 */
#pragma once

#include "base/bits.h"
#include "core/panic.h"
#include "heap/heap.h"

/* Puts the word into the heap's message for its slab's owner, and sends a full one before. False when the slab is gone
 * or there is no memory for a message. The heap's thread, or anybody once the thread is gone. */
bool message_add(heap_t *h, const remote_entry_t *word);

/* Sends what there is. The heap's thread, or anybody once the thread is gone. */
void messages_send(heap_t *h);

/* Sends the word in a message of its own. False when there is no memory for it. Any thread. */
bool message_send_alone(uint32_t to, const remote_entry_t *word);

/* Whether the block that `word` has the bit of lies in a message that the heap fills; in one that waits in its inbox or
 * is being opened. For reports; they take no lock. */
bool messages_hold_out(const heap_t *h, const remote_entry_t *word);
bool messages_hold_in(const heap_t *h, const remote_entry_t *word);

/* Collects what others freed of this heap's slabs. Caller holds the heap's lock, as for the next. */
void heap_drain_locked(heap_t *h);

/* Gives the word's blocks to their slab, which is the heap's. Returns those that are free already, or that the slab
 * does not have. */
uint64_t heap_remote_give_locked(heap_t *h, const remote_entry_t *word);

/* The heap that owns the word's slab; HK_OWNER_NONE when the slab is gone, as it may be after a double free. */
uint32_t heap_remote_owner(const remote_entry_t *word);

/* The word that block `index` of the slab at `base` has its bit in. */
HK_INLINE uint64_t heap_remote_key(const void *base, unsigned index) { return (uintptr_t)base | index / 64; }

/* The word and the bit of a block of the class. */
HK_INLINE remote_entry_t heap_remote_word(const void *block, unsigned cls) {
    unsigned index = class_block_index(&hk_classes[cls], block);
    return (remote_entry_t){heap_remote_key(slab_base(slab_of(block, cls)), index), UINT64_C(1) << (index % 64)};
}

/* The slab that an entry with bits is of. */
HK_INLINE slab_t *heap_remote_slab(const remote_entry_t *entry) {
    hk_assert(entry->key != 0 && map_slot((const void *)(uintptr_t)entry->key) < map_count());
    return slab_at((slot_t)map_slot((const void *)(uintptr_t)entry->key));
}

/* The first block of the class that `bits` has of the word. */
HK_INLINE void *heap_remote_block(const remote_entry_t *word, unsigned cls, uint64_t bits) {
    size_t index = (word->key & 63) * 64 + hk_ctz64(bits);
    return slab_base(heap_remote_slab(word)) + index * hk_class_info[cls].block_size;
}
