/* SPDX-License-Identifier: MIT
 *
 * hardened.h: HAKMEM_SAFE=2 and 3.
 *
 * Magazines stay empty, so that every call takes the slow path and comes here.
 *   2  a freed block is filled with a pattern and waits in a queue of its thread's heap; when it leaves the queue the
 *      pattern must be whole: a write after free is found (heap/quarantine.h). It is looked at once more when the block
 *      is handed out again, if its first 16 bytes still say that it was freed so. A large block (above 256 KiB, at
 *      level 3 with its seal) waits in that queue without pages, and must read as zeros when it leaves it. A huge one
 *      is unmapped at once: who writes to it faults.
 *   3  besides, the bytes behind what was asked for, to the end of the block, carry a pattern and the size: an overflow
 *      is found at free.
 *
 * Layout of a block at level 3:  | what was asked for | pattern ... | size ^ secret ^ address | (at least 8 bytes each)
 */
#ifndef HK_SLOW_HARDENED_H
#define HK_SLOW_HARDENED_H

#include "base/base.h"
#include "heap/heap.h"

/* `h` may be NULL. NULL with errno ENOMEM on failure. */
void *hardened_alloc(heap_t *h, size_t align, size_t size, bool zero);
void hardened_free(heap_t *h, void *block, unsigned cls, const void *caller);
void *hardened_realloc(void *block, size_t old_size, size_t size, const void *caller);

/* Frees the large block at `block`, the start of a run. */
void hardened_free_large(heap_t *h, void *block, const void *caller);

/* False when the huge block at `block` was written past what was asked for, which is reported. True when there is
 * none. */
bool hardened_huge_is_whole(const void *block, const void *caller);

/* For explicit heaps, whose blocks do not wait. With room for the seal, what `size` becomes; seals a block of
 * `block_size` bytes; whether its seal is whole, reports otherwise; the same for a block of a slab at its free, which
 * is then filled with the pattern. */
size_t hardened_room(size_t size);
void hardened_begin(void *block, size_t block_size, size_t size);
bool hardened_is_whole(const void *block, size_t block_size, const void *caller);
bool hardened_end(void *block, unsigned cls, const void *caller);

/* What the program may use of a block. */
size_t hardened_size(const void *block, size_t block_size);

/* Whether it was asked for with this size: exactly at level 3, otherwise as far as classes tell. */
bool hardened_size_fits(const void *block, size_t block_size, size_t align, size_t size);

#endif
