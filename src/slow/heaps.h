/* SPDX-License-Identifier: MIT
 *
 * heaps.h: blocks of heaps that the program makes, and their ends. Any thread, at any time.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"

/* A block of the heap's. NULL with errno ENOMEM when there is no memory for it, or the heap is at its limit. */
void *heaps_alloc(heap_t *h, size_t align, size_t size, bool zero, const void *caller);

/* A block of the heap that the caller's live block is of, or an ordinary one when that was released. */
void *heaps_alloc_beside(const void *block, size_t align, size_t size, const void *caller);

/* The heap of the live block at `block`; NULL when it is an ordinary block, or none. */
heap_t *heaps_of(const void *block);

/* As visit_blocks, with the sizes that the program may use. */
int heaps_visit(heap_t *h, bool visit(void *block, size_t size, void *context), void *context);

/* All blocks become free; returns their usable bytes. The heap stays, or ends. */
size_t heaps_reset(heap_t *h, const void *caller);
void heaps_destroy(heap_t *h, const void *caller);

/* The heap ends; its blocks stay. */
void heaps_release(heap_t *h);
