/* SPDX-License-Identifier: MIT
 *
 * malloc.h: the slow continuations of malloc, and the allocations that have no fast path: what front/ calls.
 *
 * The fast path ends in a tail call of them. They return NULL and set errno to ENOMEM when they fail.
 */
#pragma once

#include "base/base.h"

/* malloc of any size, when the fast path has no block or the countdown ran out: it has charged what fits into a
 * magazine (slow/tick.h). The others are of requests that it has not charged. */
HK_NOINLINE void *heap_malloc_slow(size_t size);

/* malloc of what has not been charged. `caller` is the program's return address. */
void *heap_malloc(size_t size, const void *caller);

/* heap_malloc of a block that may grow to `room`, at most HK_MID_MAX, in its place. */
void *heap_malloc_roomy(size_t size, size_t room, const void *caller);

/* Zeroed memory; `size` is the checked product. */
HK_NOINLINE void *heap_calloc_slow(size_t size);

/* `align` is a power of two. Zeroed: above HK_ALIGNMENT. */
HK_NOINLINE void *heap_aligned(size_t align, size_t size);
void *heap_aligned_by(size_t align, size_t size, const void *caller);
void *heap_aligned_calloc(size_t align, size_t size, const void *caller);

/* For the fast path, when the countdown ran out; it has charged the request. `size` is not 0 and is what was asked for,
 * rounded up to its alignment: the block is aligned to the largest power of two that divides `size`. Hardened heaps
 * need the size as it was asked for, and never come here: their magazines are empty. */
HK_NOINLINE void *heap_aligned_slow(size_t size);

/* In a stranded process (start/fork.h); the block reads as zeros. `align` is a power of two. */
void *heap_alloc_stranded(size_t align, size_t size);

/* NULL, and ENOMEM in errno. */
void *heap_fail(void);
