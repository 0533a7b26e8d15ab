/* SPDX-License-Identifier: MIT
 *
 * realloc.h: what has to know a block's size: realloc and malloc_usable_size. `caller` is the
 * program's return address, for reports.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"
#include "slab/size_class.h"
#include "slow/classify.h"

/* Whether a slab's block stays where it is when its size changes: when its class is that of the new size, or that
 * leaves at most a quarter (tiny) or half (mid) of it unused. Copying would cost more than the memory is worth. */
HK_INLINE bool heap_block_stays(unsigned cls, size_t size) {
    size_t now = hk_class_info[cls].block_size, least = cls < HK_TINY_CLASSES ? now - now / 4 : now / 2;
    return size <= now && (size >= least || class_of(size) == cls);
}

/* Whether what was found stays as it is for `size` bytes: a slab's block, or one alone in place of such. */
HK_INLINE bool found_stays(const found_t *found, size_t size) {
    return (found->kind == KIND_SLAB || found->kind == KIND_LARGE) && found->cls < HK_CLASS_COUNT &&
           heap_block_stays(found->cls, hk_max(size, 1));
}

/* Whether it is a block alone that may become one of a larger class where it is. */
HK_INLINE bool found_may_grow_alone(const found_t *found, size_t size) {
    return found->kind == KIND_LARGE && found->cls < HK_CLASS_COUNT && size > found->size && size <= HK_MID_MAX;
}

/* Bytes of what changed its size where it is that had their chance to be sampled (heap_sample_resized). A block alone
 * that grew is drawn anew: of each class it had before, what was not asked for had none. */
HK_INLINE size_t found_had_chance(const found_t *found, size_t size) {
    return found_may_grow_alone(found, size) ? 0 : found->size;
}

enum { HEAP_ROOM_FROM = 8 * 1024 };

/* Whether a long block grows by less than a 32nd. Then the next one has room for a quarter more than the block had: one
 * that grows by small steps is copied half as often. */
HK_INLINE bool heap_grows_little(size_t old_size, size_t size) {
    return old_size >= HEAP_ROOM_FROM && size > old_size && size - old_size < old_size / 32;
}

void *heap_realloc(void *block, size_t size, const void *caller);

/* The block comes to a multiple of `align`, a power of two above HK_ALIGNMENT. */
void *heap_aligned_realloc(void *block, size_t align, size_t size, const void *caller);

/* The block, of any heap, becomes one of the explicit heap `to`. */
void *heap_realloc_to(heap_t *to, void *block, size_t size, const void *caller);

size_t heap_usable_size(const void *block, const void *caller);
