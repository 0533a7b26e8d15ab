/* SPDX-License-Identifier: MIT
 *
 * huge.h: blocks that are allocated with more than 1 GiB, and any other that the window cannot hold: a mapping of their
 * own each, found through a small registry. The registry is an array in metadata memory, guarded by the huge lock; its
 * count is also read without it, so that a program without huge blocks pays one load.
 */
#pragma once

#include "base/base.h"
#include "core/lock.h"

#include <stdatomic.h>

extern hk_lock_t hk_huge_lock;

typedef struct huge_block {
    char *start;
    size_t size;
    uint32_t owner; /* the explicit heap that it is of, or HK_OWNER_NONE */
} huge_block_t;

/* The registry, for readers outside the process: inspect/. */
extern huge_block_t *hk_huge_blocks;
extern _Atomic size_t hk_huge_count; /* of them, */
extern _Atomic size_t hk_huge_total; /* and their bytes */

/* NULL when memory is out. The memory reads as zeros. */
void *huge_alloc(size_t size, size_t align);

/* True when a huge block starts at `block` (it is freed now). */
bool huge_free(void *block);

/* The huge block that `address` lies in: its start and size. False when there is none. */
bool huge_find(const void *address, void **start, size_t *size);

/* huge_find without waiting for the lock: false also when somebody holds it. For signal handlers. */
bool huge_find_try(const void *address, void **start, size_t *size);

/* Reads a word of a huge block; false when no such block has it: another thread may have freed it. */
bool huge_read(const uint64_t *place, uint64_t *word);

/* Changes the size by mremap; NULL when `block` is not huge or memory is out. */
void *huge_resize(void *block, size_t size);

/* Changes the size where the block is; false when that is not possible. */
bool huge_resize_here(void *block, size_t size);

/* The explicit heap that a huge block is of: says it, asks for it (HK_OWNER_NONE also when there is no such block),
 * adds up its blocks, and lists up to `most`; returns how many. */
typedef struct huge_sum {
    size_t count, bytes;
} huge_sum_t;
void huge_set_owner(const void *block, uint32_t owner);
uint32_t huge_owner(const void *block);
huge_sum_t huge_of_owner(uint32_t owner);
size_t huge_list(uint32_t owner, void **blocks, size_t most);

/* True when `block` is among the huge blocks that were freed last, and no longer one: a double free. */
bool huge_was_freed(const void *block, size_t *size);

HK_INLINE size_t huge_bytes(void) { return atomic_load_explicit(&hk_huge_total, memory_order_relaxed); }

/* Calls `visit` for every huge block; `held`: with the huge lock held, so that it may look into the block, which may be
 * gone else. One that is freed meanwhile may bring another one twice. */
void huge_for_each(void (*visit)(void *context, const void *start, size_t size), void *context, bool held);
