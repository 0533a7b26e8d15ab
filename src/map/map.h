/* SPDX-License-Identifier: MIT
 *
 * map.h: the slot table: whose is an address, and how big are the blocks there?
 *
 * One entry of 4 bytes for each 64 KiB slot of the window: `owner << 8 | class`. An owner is a heap's id; `entry ^ tag`,
 * where tag is `id << 8`, is the class when the slot is the heap's own and above 255 otherwise. 16 entries fill a cache
 * line, so that one line covers 1 MiB of heap.
 *
 *   0                       nothing of ours is there
 *   id << 8 | class         a slab of heap `id` (every slot of the slab carries it)
 *   HK_MAP_RUN_HEAD         first slot of a run of slots (a large block)
 *   id << 8 | large class   the same, of a run that heap `id` keeps in its magazines
 *   HK_MAP_RUN_BODY         another slot of a run
 *
 * Writers: the owner of the slots (slab open and retire, adoption, large). Readers: any thread, relaxed: who frees a block
 * got its address through some synchronisation that came after the entry was written; a stale owner only sends a free
 * down the remote path, which is always valid.
 *
 * MAP-1  `count` only grows; entries below it are readable for ever.
 * MAP-2  HK_MAP_RUN_* ^ tag is above 255 for every tag in use.
 */
#ifndef HK_MAP_H
#define HK_MAP_H

#include "base/base.h"
#include "region/region.h"

#include <stdatomic.h>

typedef uint32_t slot_t; /* index of a slot in the window; 0 is none, superslab 0 is never used */

enum {
    HK_OWNER_NONE = 0,
    HK_OWNER_POOL = 1, /* the heap of slabs whose thread is gone */
    HK_OWNER_FIRST = 2,
    HK_OWNER_LIMIT = 1 << 22,
};
#define HK_MAP_RUN_HEAD    UINT32_C(0xffffff01)
#define HK_MAP_RUN_BODY    UINT32_C(0xffffff02)
#define HK_MAP_NO_TAG      UINT32_C(0xfeffff00) /* a tag that matches no entry */
#define HK_MAP_CLASS_MAX   255u
#define HK_MAP_CLASS_LARGE 128u /* classes from here on are of runs, below of slabs */

typedef struct hk_map {
    size_t first;            /* address >> 16 of slot 0; constant after map_init */
    size_t count;            /* slots covered; written under the superslab lock, read by any thread */
    _Atomic uint32_t *table; /* constant after map_init */
} hk_map_t;

extern hk_map_t hk_map;

void map_init(void);

/* Makes the table cover the first `slot_count` slots. Returns 0 or ENOMEM. Caller holds the superslab lock. */
int map_cover(size_t slot_count);

/* Slot of an address, or a number >= hk_map.count when the address is not in the covered window. */
HK_INLINE size_t map_slot(const void *address) { return ((uintptr_t)address >> HK_SLOT_SHIFT) - hk_map.first; }

/* A plain load, so that the compiler compares with memory. It may miss growth that happens meanwhile, of which no pointer
 * that the reader holds can be part. */
HK_INLINE size_t map_count(void) { return HK_TSAN ? __atomic_load_n(&hk_map.count, __ATOMIC_RELAXED) : hk_map.count; }

HK_INLINE uint32_t map_entry(size_t slot) { return atomic_load_explicit(&hk_map.table[slot], memory_order_relaxed); }

/* Entry of any address; 0 when it is not in the window. */
HK_INLINE uint32_t map_lookup(const void *address) {
    size_t slot = map_slot(address);
    return slot < map_count() ? map_entry(slot) : 0;
}

/* Release: pairs with nothing that the fast path relies on (see above); it lets a diagnosing reader that finds the entry
 * also find the record behind it. */
HK_INLINE void map_set(slot_t slot, unsigned count, uint32_t entry) {
    for (unsigned i = 0; i < count; i++)
        atomic_store_explicit(&hk_map.table[slot + i], entry, memory_order_release);
}

HK_INLINE char *map_slot_address(slot_t slot) { return (char *)((hk_map.first + slot) << HK_SLOT_SHIFT); }

/* True when the entry is of a run of slots; its head when the entry is not HK_MAP_RUN_BODY. */
HK_INLINE bool map_is_run(uint32_t entry) {
    return (entry & HK_MAP_CLASS_MAX) >= HK_MAP_CLASS_LARGE || entry >= HK_MAP_RUN_HEAD;
}

HK_INLINE uint32_t map_tag(uint32_t owner) { return owner << 8; }

#endif
