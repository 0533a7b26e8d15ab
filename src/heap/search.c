/* SPDX-License-Identifier: MIT */
#include "heap/search.h"

#include "base/bits.h"
#include "heap/messages.h"
#include "heap/remote.h"

static HK_SNAPSHOT bool is_in_magazine(const heap_t *h, const void *block, unsigned cls) {
    granule_t wanted = map_granule(block);
    if (hk_read(h->front.magazines[cls].top) == wanted)
        return true;
    /* Acquire: pairs with the releases in magazine_push, magazine.c and flush.c, so that what counts is in the array
     * that is read, and no block that lay there before is found. Arrays of magazines are never unmapped: a stale one is
     * read in vain, not in error. */
    granule_t *below = hk_read_acquire(h->front.magazines[cls].below), *array = hk_read(h->class_stats[cls].array);
    size_t count = below == NULL || array == NULL ? 0 : (size_t)(below - array + 1);
    for (size_t i = 1; i < count && count <= hk_class_info[cls].magazine_max; i++)
        if (hk_read(array[i]) == wanted)
            return true;
    return false;
}

static HK_SNAPSHOT bool is_in_remote_table(heap_t *h, const remote_entry_t *word) {
    const remote_entry_t *entry = heap_remote_entry(h, word->key);
    if (hk_read_acquire(entry->key) != word->key)
        return false;
    uint64_t bits = hk_read_acquire(entry->bits);
    /* The bits are of this key if the key is still there. */
    return (bits & word->bits) != 0 && __atomic_load_n(&entry->key, __ATOMIC_RELAXED) == word->key;
}

static bool is_free_in_slab(const void *block, unsigned cls) {
    return cls < HK_CLASS_COUNT && slab_block_is_free(slab_of(block, cls), class_block_index(&hk_classes[cls], block));
}

/* Freed by a thread other than its owner's, and not back in its slab yet. The shared heap gets messages too. */
static HK_SNAPSHOT bool is_on_its_way(const void *block, unsigned cls) {
    const remote_entry_t word = heap_remote_word(block, cls);
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++)
        if (is_in_remote_table(heap_by_id(id), &word) || messages_hold_out(heap_by_id(id), &word))
            return true;
    for (uint32_t id = HK_OWNER_SHARED; id < heap_limit(); id++)
        if (messages_hold_in(heap_by_id(id), &word))
            return true;
    return false;
}

/* Looks at our own records only, and takes no lock. In the order in which a block goes from one place to the next, as
 * it may do so meanwhile. */
static HK_SNAPSHOT bool seems_free(const void *block, unsigned cls) {
    if (is_free_in_slab(block, cls))
        return true;
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++)
        if (is_in_magazine(heap_by_id(id), block, cls))
            return true;
    return cls < HK_CLASS_COUNT && (is_on_its_way(block, cls) || is_free_in_slab(block, cls));
}

/* Looks twice: a place that is filled anew while it is looked at may show what lay there before, or the word of one
 * message with the bits of the next. */
bool heap_finds_free(const void *block, unsigned cls) { return seems_free(block, cls) && seems_free(block, cls); }

/* Hardened heaps keep freed blocks in queues besides, and explicit ones in leases. Both change live bits by atomic
 * operations alone: a clear one is proof (EXPLICIT-2). */
bool heap_block_is_free(const void *block, unsigned cls) {
    return hardened_is_on() || map_is_explicit(map_lookup(block)) || heap_finds_free(block, cls);
}
