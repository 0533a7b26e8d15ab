/* SPDX-License-Identifier: MIT */
#include "slow/hardened.h"

#include "core/panic.h"
#include "heap/quarantine.h"
#include "large/huge.h"
#include "slow/blocks.h"
#include "slow/sampled.h"
#include "slow/tick.h"
#include "start/start.h"
#include "watch/misuse.h"

#include <errno.h>
#include <string.h>

enum {
    SLACK_BYTE = 0xca,
    TRAILER_BYTES = 16, /* at least 8 bytes of pattern and the size word */
};

static uint64_t *size_word(const void *block, size_t block_size) {
    return (uint64_t *)((uintptr_t)block + block_size - sizeof(uint64_t));
}

/* Size asked for, or SIZE_MAX when the word was overwritten. */
static size_t asked_size(const void *block, size_t block_size) {
    uint64_t size = *size_word(block, block_size) ^ ~quarantine_word(block);
    return size + TRAILER_BYTES <= block_size ? (size_t)size : SIZE_MAX;
}

size_t hardened_size(const void *block, size_t block_size) {
    if (hk_hardened_level < 3)
        return block_size;
    size_t asked = asked_size(block, block_size);
    return asked == SIZE_MAX ? 0 : asked;
}

/* With room for the seal. */
static size_t sealed_size(size_t size) {
    return hk_hardened_level >= 3 && size < SIZE_MAX - TRAILER_BYTES ? size + TRAILER_BYTES : size;
}

/* Class of a block that serves the request. */
static unsigned class_for(size_t align, size_t size) {
    return class_of_aligned(hk_max(sealed_size(size), 1), hk_max(align, HK_ALIGNMENT));
}

bool hardened_size_fits(const void *block, size_t block_size, size_t align, size_t size) {
    if (hk_hardened_level >= 3) {
        size_t asked = asked_size(block, block_size);
        return asked == size || asked == SIZE_MAX; /* overwritten: free reports that */
    }
    uint32_t entry = map_lookup(block); /* 0: a huge one */
    unsigned cls = class_for(align, size), own = entry & HK_MAP_CLASS_MAX;
    return entry != 0 && own < HK_CLASS_COUNT ? cls == own : cls >= HK_CLASS_COUNT && size <= block_size;
}

static void seal(void *block, size_t block_size, size_t size) {
    if (hk_hardened_level < 3)
        return;
    memset((char *)block + size, SLACK_BYTE, block_size - sizeof(uint64_t) - size);
    *size_word(block, block_size) = size ^ ~quarantine_word(block);
}

/* True when nothing behind the asked size was written; reports otherwise. */
static bool seal_is_whole(const void *block, size_t block_size, const void *caller) {
    if (hk_hardened_level < 3)
        return true;
    size_t asked = asked_size(block, block_size);
    if (asked == SIZE_MAX) {
        hk_misuse("overflow of", block, caller, "%zu-byte block, its last bytes are overwritten", block_size);
        return false;
    }
    for (size_t at = asked; at < block_size - sizeof(uint64_t); at++) {
        if (((const unsigned char *)block)[at] == SLACK_BYTE)
            continue;
        hk_misuse("overflow of", block, caller, "%zu-byte block, %zu bytes asked for, offset %zu overwritten",
                  block_size, asked, at);
        return false;
    }
    return true;
}

/* --- Explicit heaps ----------------------------------------------------------------------------------------------- */

size_t hardened_room(size_t size) { return sealed_size(size); }

void hardened_begin(void *block, size_t block_size, size_t size) { seal(block, block_size, size); }

bool hardened_is_whole(const void *block, size_t block_size, const void *caller) {
    return seal_is_whole(block, block_size, caller);
}

bool hardened_end(void *block, unsigned cls, const void *caller) {
    if (!seal_is_whole(block, hk_class_info[cls].block_size, caller))
        return false;
    quarantine_fill(block, cls);
    return true;
}

/* --- Large and huge blocks ---------------------------------------------------------------------------------------- */

/* 0 when it is neither. */
static size_t big_size(const void *block) {
    void *start;
    size_t size;
    if (map_is_run(map_lookup(block)))
        return large_size(block);
    return huge_find(block, &start, &size) && start == block ? size : 0;
}

static void *big_alloc(heap_t *h, size_t align, size_t size, bool zero) {
    bool zeroed = false;
    void *block = heap_big_alloc(h, sealed_size(size), align, zero ? &zeroed : NULL);
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    seal(block, big_size(block), size);
    return zero && !zeroed ? memset(block, 0, size) : block;
}

void hardened_free_large(heap_t *h, void *block, const void *caller) {
    size_t size = large_size(block);
    if (large_is_live(block) && !seal_is_whole(block, size, caller))
        return;
    if (!large_hold(&(h != NULL ? h : heap_shared())->large, block)) {
        misuse_double_free("free", block, size, caller);
        return;
    }
    quarantine_put_run(h, block, caller);
}

bool hardened_huge_is_whole(const void *block, const void *caller) {
    size_t size = hk_hardened_level >= 3 ? big_size(block) : 0;
    return size == 0 || seal_is_whole(block, size, caller);
}

/* What does not fit any more is unmapped, and so is the old place. */
static void *resize_huge(void *block, size_t size, const void *caller) {
    if (sealed_size(size) <= HK_LARGE_MAX || !hardened_huge_is_whole(block, caller))
        return NULL;
    void *moved = huge_resize(block, sealed_size(size));
    if (moved != NULL)
        seal(moved, big_size(moved), size);
    return moved;
}

/* --- Alloc, free, realloc ----------------------------------------------------------------------------------------- */

void *hardened_alloc(heap_t *h, size_t align, size_t size, bool zero) {
    if (h == NULL)
        h = heap_shared();
    unsigned cls = class_for(align, size);
    if (cls >= HK_CLASS_COUNT)
        return big_alloc(h, align, size, zero);
    size_t block_size = hk_class_info[cls].block_size;
    block_past_t past;
    void *block = heap_take_one_or_reclaim(h, cls, &past);
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    quarantine_look(block, cls, __builtin_return_address(0));
    seal(block, block_size, size);
    return zero ? memset(block, 0, size) : block;
}

void hardened_free(heap_t *h, void *block, unsigned cls, const void *caller) {
    size_t size = hk_class_info[cls].block_size;
    if (!seal_is_whole(block, size, caller))
        return;
    quarantine_put(h, block, cls, caller);
}

static void free_moved(heap_t *h, void *block, size_t old_size, const void *caller) {
    uint32_t entry = map_lookup(block);
    const bool was_sampled = sample_close(block, heap_draw(h));
    if (entry == 0)
        (void)(hardened_huge_is_whole(block, caller) && huge_free(block));
    else if (map_is_run(entry))
        hardened_free_large(h, block, caller);
    else if (was_sampled || map_clear_live_shared(map_granule(block)))
        hardened_free(h, block, entry & HK_MAP_CLASS_MAX, caller);
    else /* another thread frees it at this moment */
        misuse_double_free("realloc", block, old_size, caller);
}

/* Memory is out when a block had to shrink: it stays, and keeps its seal where its size is now. */
static void *stay(void *block, size_t size, int saved_errno, const void *caller) {
    size_t big = big_size(block);
    size_t block_size = big != 0 ? big : hk_class_info[map_lookup(block) & HK_MAP_CLASS_MAX].block_size;
    if (!seal_is_whole(block, block_size, caller))
        return NULL;
    seal(block, block_size, size);
    return heap_keep_whole(block, saved_errno);
}

/* Always into another block, so that the old one can be watched; but huge ones, whose old place is unmapped. */
void *hardened_realloc(void *block, size_t old_size, size_t size, const void *caller) {
    heap_t *h = heap_current();
    void *same = map_lookup(block) == 0 ? resize_huge(block, size, caller) : NULL;
    if (same != NULL) {
        heap_sample_resized(h, block, same, old_size, size, caller);
        return same;
    }
    int saved = errno;
    const bool due = heap_charge(h, hk_max(size, 1), false);
    void *copy = heap_sampled_if(due, h, hardened_alloc(h, HK_ALIGNMENT, size, false), size, caller);
    if (copy == NULL && size <= old_size)
        return stay(block, size, saved, caller);
    if (copy == NULL)
        return NULL;
    memcpy(copy, block, hk_min(old_size, size));
    free_moved(h, block, old_size, caller);
    return copy;
}
