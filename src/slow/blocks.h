/* SPDX-License-Identifier: MIT
 *
 * blocks.h: blocks of every kind for a heap that may be NULL (the shared heap's serve then), with every way out when
 * memory is out.
 *
 * None of the functions sets errno.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"

/* User address space that a process gets unasked, less its last page, of up to 64 KiB: more is refused at once, and
 * nothing is trimmed for it. */
#define HEAP_SIZE_POSSIBLE (((size_t)1 << (HK_X86_64 ? 47 : 48)) - 64 * HK_KIB)

/* A block of the class, at a multiple of `align`, which divides the class's size. */
void *heap_class_alloc(heap_t *h, unsigned cls, size_t align);

/* A block of a class with slabs in a run of its own, or NULL: where the thread uses the class too rarely for a slab.
 * `zeroed` as with large_alloc. */
void *heap_alone_try(heap_t *h, unsigned cls, size_t align, bool *zeroed);

/* Whether a block alone has become one of `size` bytes where it is: in what its run has beyond it, or in slots of the
 * heap (NULL: none) behind it. */
bool heap_alone_grow(heap_t *h, void *block, size_t size);

/* Large and huge blocks. `*zeroed` tells whether the block reads as zeros; NULL when nobody wants zeros. */
void *heap_big_alloc(heap_t *h, size_t size, size_t align, bool *zeroed);

/* Bytes of a block that is the program's, with the seal of a hardened one: its class's, or those of its pages. 0 when
 * none is there any more. */
size_t heap_block_size(const void *block);

/* A block straight from a slab; memory that can be given back is, before NULL is the answer. `h` may be the
 * shared heap. */
void *heap_take_one_or_reclaim(heap_t *h, unsigned cls, block_past_t *past);

/* The last way out when there is no room for a slab: one large block in place of a slab for several, then a block of
 * the class or of a larger one, whatever heap has it. */
HK_COLD void *heap_take_anywhere(heap_t *h, unsigned cls, size_t align);

/* The run leaves the magazines' way, for good; `entry` is its head's. */
void heap_untag(heap_t *h, void *block, uint32_t entry);

/* Memory is out, so a block that had to shrink stays as it is: sizes are no longer proof of anything. Restores
 * errno. */
HK_COLD void *heap_keep_whole(void *block, int saved_errno);

/* Whether a block is larger than the program asked for, as memory was out once when it was allocated or had to
 * shrink. */
bool heap_has_kept_whole(void);
