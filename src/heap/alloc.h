/* SPDX-License-Identifier: MIT
 *
 * alloc.h: the slow continuations of malloc and free, and everything that has no fast path: what front/ calls.
 *
 * None is declared as returning to its caller with a frame: the fast path ends in a tail call. `caller` is the program's
 * return address, for reports. Functions that fail return NULL and set errno to ENOMEM; none of the free family changes
 * errno.
 */
#ifndef HK_ALLOC_H
#define HK_ALLOC_H

#include "base/base.h"
#include "heap/heap.h"

/* malloc of any size, when the fast path has no block or the countdown ran out. */
HK_NOINLINE void *heap_malloc_slow(size_t size);

/* Zeroed memory; `size` is the checked product. */
HK_NOINLINE void *heap_calloc_slow(size_t size);

/* `align` is a power of two. */
HK_NOINLINE void *heap_aligned(size_t align, size_t size);

/* A block aligned as far as `size`, not 0, is: to the largest power of two that divides it. When the countdown ran out: whoever
 * needs to know what was asked for, as hardened heaps do, comes to heap_aligned. */
HK_NOINLINE void *heap_aligned_slow(size_t size);

/* Large and huge blocks; `h` may be NULL. `*zeroed` tells whether the block reads as zeros; NULL when nobody wants zeros.
 * NULL, without errno, on failure. */
void *heap_big_alloc(heap_t *h, size_t size, size_t align, bool *zeroed);

/* A block straight from a slab; memory that can be given back is, before NULL is the answer. `h` may be the pool heap. */
void *heap_take_one_or_reclaim(heap_t *h, unsigned cls, block_past_t *past);

/* free of an own block whose magazine is full. */
HK_NOINLINE void heap_free_full(void *block, uint32_t cls);

/* free of what is not the thread's own: another heap's block, a large block, a foreign pointer, NULL. `mismatch` is the slot's entry
 * ^ the tag of hk_front; outside the window UINT32_MAX, or as if the entry were 0. `front` is hk_front, `granule` the block's. */
HK_NOINLINE void heap_free_other(void *block, uint32_t mismatch, heap_front_t *front, granule_t granule);

/* free of an address in an own slab whose live bit is clear. */
HK_NOINLINE void heap_free_suspect(void *block, uint32_t cls);

/* Whether a slab's block stays where it is when its size changes: when its class is that of the new size, or that leaves at most a
 * quarter (tiny) or half (mid) of it unused. Copying would cost more than the memory is worth. */
HK_INLINE bool heap_block_stays(unsigned cls, size_t size) {
    size_t now = hk_class_info[cls].block_size, least = cls < HK_TINY_CLASSES ? now - now / 4 : now / 2;
    return size <= now && (size >= least || class_of(size) == cls);
}

/* Memory is out, so a block that had to shrink stays as it is: sizes are no longer proof of anything. Restores errno. */
HK_COLD void *heap_keep_whole(void *block, int saved_errno);

void *heap_realloc(void *block, size_t size, const void *caller);
size_t heap_usable_size(const void *block, const void *caller);

/* Frees after checking that `align` and `size` are those that the block was asked with. */
void heap_free_sized(void *block, size_t align, size_t size, const char *verb, const void *caller);

#endif
