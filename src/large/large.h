/* SPDX-License-Identifier: MIT
 *
 * large.h: blocks of their own run of slots, 256 KiB to 1 GiB.
 *
 * A block is a run of slots in the window; its record takes the place of the slab record of its first slot. The slot
 * table says HK_MAP_RUN_HEAD for the first slot and HK_MAP_RUN_BODY for the others. Just-freed runs wait in the freeing
 * heap's run cache, so that a program that allocates and frees a buffer in a loop pays neither system call nor page
 * fault; they leave it by time (large_cache_trim), by count and by bytes.
 *
 *   LIVE --large_free--> CACHED --large_alloc--> LIVE
 *                        CACHED --trim, overflow--> FREE (slots returned, table entries 0)
 *
 * The cache is small: what it has no room for lies resident in the pool, where neighbours become one and serve any
 * size.
 *
 * `state` is the exact guard against double frees: LIVE -> CACHED is one compare-exchange by the freeing thread.
 * A cache is guarded by its lock (HK_RANK_RUN_CACHE).
 */
#pragma once

#include "base/base.h"
#include "core/lock.h"
#include "large/run.h"
#include "map/map.h"

#define HK_LARGE_MAX HK_GIB

enum { LARGE_CACHE_ENTRIES = 16 };

typedef struct large_cache {
    hk_lock_t lock;
    uint32_t count;
    size_t bytes;
    int64_t live_bytes;   /* allocated less freed through this cache: only the sum over all caches means something */
    uint64_t taken_bytes; /* allocated through it, and grown by */
    struct large_entry {
        slot_t first;
        uint32_t slot_count;
        uint32_t since_ms;
    } entries[LARGE_CACHE_ENTRIES];
} large_cache_t;

void large_cache_init(large_cache_t *cache);

/* A block of at least `size` bytes at a multiple of `align` (a power of two). `*zeroed` tells whether it reads as
 * zeros; NULL when nobody wants zeros. NULL when memory is out. */
void *large_alloc(large_cache_t *cache, size_t size, size_t align, bool *zeroed);

/* Frees the block at `block`, the start of a run. False when it is free already. */
bool large_free(large_cache_t *cache, void *block);

/* large_free in two steps, for hardened heaps. A held run is free, but serves nobody until it is let go. */
bool large_hold(large_cache_t *cache, void *block);
void large_let_go(large_cache_t *cache, void *block);

/* Bytes of a run's end that were not asked for, where somebody keeps count: heap/wipe.h. */
void large_set_slack(void *block, size_t slack);
size_t large_slack(const void *block);

/* Marks the run as one that heap `owner` keeps in the magazine of large class `cls`, or as an ordinary one (owner
 * 0). */
void large_tag(void *block, uint32_t owner, unsigned cls);

/* Place in the list of its heap of the run that begins in the slot. Under that heap's lock. */
large_links_t *large_links(slot_t first);

/* Near a limit a live run may hold one block in place of a slab of class `cls`. How many do, in all heaps. */
void large_set_alone(void *block, unsigned cls);
unsigned large_alone_count(unsigned cls);

/* Usable bytes of a live block at `block`. */
size_t large_size(const void *block);
bool large_is_live(const void *block);

/* Start of the run that `address` lies in; its slot's entry is HK_MAP_RUN_*. */
void *large_start(const void *address);

/* Changes the size of a live block in place, or by moving its pages; nothing above 1 MiB is copied. NULL when that is
 * not possible: the caller then allocates, copies and frees. `size` is above HK_MID_MAX. */
void *large_resize(large_cache_t *cache, void *block, size_t size);

/* A live block keeps what `size` bytes need, and no room to grow. */
void large_shrink(large_cache_t *cache, void *block, size_t size);

/* Changes the size of a live block where it is; false when that is not possible. `size` is above HK_MID_MAX. */
bool large_resize_here(large_cache_t *cache, void *block, size_t size);

/* Memory is about to grow by `count` slots: cached runs, the oldest first, return to the pool until what is resident
 * there would serve. A run that is missed later takes the new memory instead. Takes the cache's lock and those
 * below. */
void large_cache_yield(large_cache_t *cache, size_t count, size_t align_slots);

/* Returns runs cached for at least `age_ms`. Returns their bytes. */
size_t large_cache_trim(large_cache_t *cache, uint64_t now_ms, uint64_t age_ms);
