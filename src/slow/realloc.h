/* SPDX-License-Identifier: MIT
 *
 * realloc.h: what has to know a block's size: realloc, malloc_usable_size, frees that name a size. `caller` is the
 * program's return address, for reports.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"
#include "slab/size_class.h"

/* Whether a slab's block stays where it is when its size changes: when its class is that of the new size, or that
 * leaves at most a quarter (tiny) or half (mid) of it unused. Copying would cost more than the memory is worth. */
HK_INLINE bool heap_block_stays(unsigned cls, size_t size) {
    size_t now = hk_class_info[cls].block_size, least = cls < HK_TINY_CLASSES ? now - now / 4 : now / 2;
    return size <= now && (size >= least || class_of(size) == cls);
}

void *heap_realloc(void *block, size_t size, const void *caller);

/* The block, of any heap, becomes one of the explicit heap `to`. */
void *heap_realloc_to(heap_t *to, void *block, size_t size, const void *caller);

size_t heap_usable_size(const void *block, const void *caller);

/* Frees after a look whether `align` and `size` are those that the block was asked with. Where the program goes on
 * after a report that they are not, the block is freed too: they are not needed. */
void heap_free_sized(void *block, size_t align, size_t size, const char *verb, const void *caller);
