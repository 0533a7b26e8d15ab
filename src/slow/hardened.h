/* SPDX-License-Identifier: MIT
 *
 * hardened.h: HAKMEM_SAFE=2 and 3.
 *
 * Magazines stay empty, so that every call takes the slow path and comes here.
 *   2  free makes a block of a slab zeros, and it waits in its lane (heap/lane.h), or above LANE_BLOCK_MAX in a queue
 *      (heap/quarantine.h): when it is handed out again it must still be zeros: a write after free is found. Its last
 *      word is its seal (heap/seal.h): a write behind it, or before it, is found when it or its neighbour is freed or
 *      resized. A large block (above 256 KiB less the seal) waits in that queue without pages, and must read as zeros
 *      when it leaves it. A huge one is unmapped at once: who writes to it faults.
 *   3  besides, large and huge blocks have seals, and each byte from what was asked for to the seal carries a pattern:
 *      an overflow by one byte is found at free. Each block waits in the queue before it comes to its lane.
 */
#ifndef HK_SLOW_HARDENED_H
#define HK_SLOW_HARDENED_H

#include "base/base.h"
#include "heap/heap.h"

/* `h` may be NULL. NULL with errno ENOMEM on failure. */
void *hardened_alloc(heap_t *h, size_t align, size_t size, bool zero);
/* Frees the block if that takes no more than a look: it is live, and of a slab. */
bool hardened_free_soon(void *block, const void *caller);

/* The block, which is zeros by now, is free. `h` may be NULL. */
void hardened_put(heap_t *h, void *block, unsigned cls, const void *caller);
void hardened_free(heap_t *h, void *block, unsigned cls, const void *caller);
void *hardened_realloc(void *block, size_t old_size, size_t size, const void *caller);

/* Frees the large block at `block`, the start of a run. */
void hardened_free_large(heap_t *h, void *block, const void *caller);

/* False when the huge block at `block` was written past what was asked for, which is reported. True when there is
 * none. */
bool hardened_huge_is_whole(const void *block, const void *caller);

/* For explicit heaps, whose blocks do not wait. With room for the seal, what `size` becomes; seals a block of
 * `block_size` bytes, one of a slab after a look that it is still zeros; whether its seal is whole, reports otherwise;
 * the same for a block of a slab at its free, which then is zeros. */
size_t hardened_room(size_t size);
void hardened_begin(void *block, size_t block_size, size_t size);
void hardened_begin_block(void *block, unsigned cls, bool never_used, size_t size, const void *caller);
bool hardened_is_whole(const void *block, size_t block_size, const void *caller);
bool hardened_end(void *block, unsigned cls, const void *caller);

/* What the program may use of a block. */
size_t hardened_size(const void *block, size_t block_size);

/* The largest size that takes no larger block than `size` does; 0: that is 0, or large or huge, without a seal. */
size_t hardened_good_size(size_t size);

/* Whether it was asked for with this size: exactly at level 3; at level 2 with this or a smaller one, as far as the
 * program may use it. */
bool hardened_size_fits(const void *block, size_t block_size, size_t size);

/* The block stays, and is one of `size` bytes from here on; false when it cannot. */
bool hardened_expand(void *block, size_t block_size, size_t size, const void *caller);

#endif
