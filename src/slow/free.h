/* SPDX-License-Identifier: MIT
 *
 * free.h: the slow continuations of free: what front/ calls. None changes errno.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"

/* free of an own block whose magazine is full. `at` is hk_front moved to the magazine. */
HK_NOINLINE void heap_free_full(void *block, const heap_front_t *at);

/* free of what is not the thread's own: another heap's block, a large block, a foreign pointer, NULL. `mismatch` is the
 * slot's entry ^ the tag of hk_front; outside the window UINT32_MAX, or as if the entry were 0. `front` is hk_front,
 * `granule` the block's. */
HK_NOINLINE void heap_free_other(void *block, uint32_t mismatch, heap_front_t *front, granule_t granule);

/* free of an address in an own slab whose live bit is clear. */
HK_NOINLINE void heap_free_suspect(void *block, uint32_t cls);

/* Frees a block that classify has found good. */
void heap_free_found(void *block, const void *caller);

/* Frees a block whose live bit was set, unless another thread frees it at this moment. The arguments are those of
 * heap_free_other; the block may be the thread's own. */
HK_NOINLINE void heap_free_live(void *block, uint32_t mismatch, heap_front_t *front, granule_t granule);
