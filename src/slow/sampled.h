/* SPDX-License-Identifier: MIT
 *
 * sampled.h: a block that is to be sampled, on its way to the program.
 */
#pragma once

#include "heap/heap.h"

/* Makes a record of the block, and returns it. `h` may be NULL, and so may `block`. */
HK_COLD void *heap_sampled(heap_t *h, void *block, size_t size, const void *caller);

HK_INLINE void *heap_sampled_if(bool due, heap_t *h, void *block, size_t size, const void *caller) {
    return hk_likely(!due) ? block : heap_sampled(h, block, size, caller);
}

/* What sample_close and sample_close_suspect take of a heap, which may be NULL. */
HK_INLINE const sample_draw_t *heap_draw(const heap_t *h) { return h != NULL ? &h->draw : NULL; }

/* A block without a slab has another size now, and may have moved. `old_size`: bytes of it that have had their chance
 * to be sampled; 0 for one that is as good as new. */
void heap_sample_resized(heap_t *h, void *old, void *block, size_t old_size, size_t size, const void *caller);
