/* SPDX-License-Identifier: MIT
 *
 * slab.h: equal blocks in a naturally aligned group of slots; their state lies in a bitmap outside of them.
 *
 * A slab belongs to one heap at a time. Its record is found from an address by arithmetic: the record of its first
 * slot. It is guarded by the owning heap's lock; a reader without the lock gets a snapshot.
 *
 *     free_bits    bit = 1: the block is free and in the slab (not handed out, not in a magazine, not on its way to the
 *                  slab)
 *
 *   CLOSED --slab_open--> OPEN: partial <--> full --all blocks free--> slab_close --> CLOSED
 *
 * SLAB-1  free_count is the number of bits set in free_bits; none is set at or above block_count.
 * SLAB-2  of a slab of at most 64 blocks, those not in `handed_out` were never handed out since it was opened; if
 *         `zeroed` they read as zeros.
 * SLAB-3  no word of free_bits before word_hint has a bit set, counted cyclically from the first block's word.
 *
 * Blocks are handed out in address order, but not from the first: a slab begins at a block of its own and goes round,
 * so that the first blocks of all slabs, which are aligned alike, do not meet in the same sets of the caches.
 * SLAB-4  every slot of an OPEN slab has the entry `owner << 8 | class` in the slot table.
 */
#pragma once

#include "base/base.h"
#include "core/panic.h"
#include "map/map.h"
#include "slab/size_class.h"

#include <stdatomic.h>

enum { SLAB_CLOSED = 0, SLAB_OPEN };
enum { SLAB_LIST_NONE = 0, SLAB_LIST_PARTIAL, SLAB_LIST_FULL };
enum { SLAB_INLINE_BLOCKS = 64 };
enum { SLAB_AGE_PURGED = 0, SLAB_AGE_NEW };

typedef struct slab {
    uint64_t *free_bits; /* &inline_free when block_count <= 64, else in metadata memory */
    uint64_t inline_free;
    uint64_t handed_out;   /* blocks ever handed out, when block_count <= 64 */
    slot_t next, previous; /* the list it is in: heap/ */
    uint16_t free_count;
    uint16_t block_count;
    uint16_t peak_count;  /* most blocks out of the slab at once */
    uint16_t first_block; /* where handing out begins */
    uint16_t word_hint;   /* words passed since the one of first_block */
    uint8_t cls;
    _Atomic uint8_t state; /* written by the owner, read by anyone who diagnoses */
    uint8_t list;          /* SLAB_LIST_* */
    uint8_t bin;           /* which of the partial lists */
    bool zeroed : 1;
    bool used_in_full : 1;  /* was full once: all its pages are in use */
    bool fenced : 1;        /* the slot behind it is, and goes with it (superslab/fence.h) */
    uint8_t age;            /* SLAB_AGE_*, or since when no block came or went: upkeep/sparse.h */
    uint16_t settle_at;     /* so many free blocks bring it into another list, or to its end: heap/lists.h */
    _Atomic uint32_t owner; /* written under the lock of the heap that gives the slab away or opens it */
    uint32_t taker;         /* of an explicit heap, under its lock: whose lease was filled from it last; 0 none */
    uint8_t padding[68];    /* a large_run_t in place of the record has its fields here: large/run.h */
} slab_t;

_Static_assert(sizeof(slab_t) == 128, "as region/window.c lays it out");

HK_INLINE slab_t *slab_at(slot_t slot) {
    hk_assert(slot < map_count());
    return (slab_t *)hk_window.areas[REGION_AREA_SLABS] + slot;
}

HK_INLINE slot_t slab_slot(const slab_t *slab) {
    return (slot_t)(slab - (const slab_t *)hk_window.areas[REGION_AREA_SLABS]);
}

/* The parse is the check (as in musl's mallocng, meta.h: get_meta): what a record says is held against what the number
 * of its slot, its class and the slot table say. For hk_assert, of an OPEN slab, under the lock of its heap. Always
 * true in a release build, where nothing is left of it. */
HK_INLINE bool slab_is_whole(const slab_t *slab) {
    if (!HK_CHECK)
        return true;
    slot_t slot = slab_slot(slab);
    hk_assert(slot != 0 && slot < map_count());
    hk_assert(slab->cls < HK_CLASS_COUNT);
    hk_assert((slot & (hk_class_info[slab->cls].slab_slots - 1u)) == 0);
    hk_assert(atomic_load_explicit(&slab->state, memory_order_relaxed) == SLAB_OPEN);
    hk_assert(slab->block_count == hk_class_info[slab->cls].block_count);
    hk_assert(slab->free_count <= slab->block_count && slab->peak_count <= slab->block_count);
    hk_assert(slab->first_block < slab->block_count);
    hk_assert(slab->word_hint <= (slab->block_count + 63u) / 64u);
    hk_assert((slab->free_bits == &slab->inline_free) == (slab->block_count <= SLAB_INLINE_BLOCKS));
    hk_assert(slab->list <= SLAB_LIST_FULL);
    uint32_t owner = atomic_load_explicit(&slab->owner, memory_order_relaxed);
    hk_assert(map_entry(slot) == (map_tag(owner) | slab->cls));
    return true;
}

/* Record of the slab of class `cls` that `address` lies in. */
HK_INLINE slab_t *slab_of(const void *address, unsigned cls) {
    hk_assert(cls < HK_CLASS_COUNT);
    return slab_at((slot_t)map_slot(address) & ~((slot_t)hk_class_info[cls].slab_slots - 1));
}

HK_INLINE char *slab_base(const slab_t *slab) { return map_slot_address(slab_slot(slab)); }

HK_INLINE unsigned slab_word_count(const slab_t *slab) { return (slab->block_count + 63u) / 64u; }

/* Opens a slab for `owner`, and counts it. NULL when memory is out. Once the heap is large, one of small blocks that is
 * likely to be filled gets its pages ahead of use, or huge ones; one that is not takes slots that are not resident, if
 * its superslab has some. At levels 2 and 3 the slot behind some slabs is fenced until they are closed. */
slab_t *slab_open(unsigned cls, uint32_t owner, bool is_filled);

/* Closes a slab whose blocks are all free, and gives its slots back. It is on no list. */
void slab_close(slab_t *slab);

/* Closes a slab with all blocks that are in use. It is on no list. */
void slab_close_live(slab_t *slab);

/* Makes `owner` the slab's owner. Caller holds the locks of both heaps. */
void slab_set_owner(slab_t *slab, uint32_t owner);

/* Takes up to `want` free blocks in (cyclic) address order and stores their granules downwards from `end` (end[-1] is
 * the first), so that a magazine pops them in address order. Returns how many. */
unsigned slab_take(slab_t *slab, granule_t *end, unsigned want);

/* What is known of a block that a slab hands out. */
typedef enum block_past {
    BLOCK_USED,   /* its contents are unknown */
    BLOCK_ZEROED, /* it reads as zeros */
} block_past_t;

/* Takes one block. free_count must not be 0. */
void *slab_take_one(slab_t *slab, block_past_t *past);

/* Marks the blocks `bits` of word `word` free. Returns those that were free already: double frees. */
uint64_t slab_give(slab_t *slab, unsigned word, uint64_t bits);

/* After bits of blocks that were not free were set in free_bits. */
HK_INLINE void slab_count_given(slab_t *slab, unsigned blocks) {
    hk_assert(slab->free_count + blocks <= slab->block_count);
    slab->free_count = (uint16_t)(slab->free_count + blocks);
    slab->word_hint = 0;
    if (slab->age == SLAB_AGE_PURGED)
        slab->age = SLAB_AGE_NEW;
}

/* Stretches of free blocks, whose pages may go back. `slab_next_stretch` finds the first stretch at or above
 * block `from`: it returns its first block (block_count when there is none) and puts one past its last into `*end`.
 * `slab_take_stretch` takes it out of free_bits; its blocks come back by slab_give, word by word:
 * `slab_stretch_bits`. */
unsigned slab_next_stretch(const slab_t *slab, unsigned from, unsigned *end);
void slab_take_stretch(slab_t *slab, unsigned first, unsigned end);
uint64_t slab_stretch_bits(unsigned word, unsigned first, unsigned end);

HK_INLINE bool slab_is_empty(const slab_t *slab) { return slab->free_count == slab->block_count; }

/* True when the block's bit is set in free_bits. Any thread; a snapshot. */
bool slab_block_is_free(const slab_t *slab, unsigned index);

/* Verifies SLAB-1..4; returns the violations, each printed. Caller holds the owner's lock. */
size_t slab_check(const slab_t *slab);
