/* SPDX-License-Identifier: MIT
 *
 * map.h: the slot table: whose is an address, and how big are the blocks there? And the live bits: is it a block of the
 * program's?
 *
 * One entry of 4 bytes for each 64 KiB slot of the window: `owner << 8 | class`. An owner is a heap's id; `entry ^
 * tag`, where tag is `id << 8`, is the class when the slot is the heap's own and above 255 otherwise. 16 entries fill a
 * cache line, so that one line covers 1 MiB of heap.
 *
 *   0                       nothing of ours is there
 *   id << 8 | class         a slab of heap `id` (every slot of the slab carries it)
 *   HK_MAP_RUN_HEAD         first slot of a run of slots (a large block)
 *   id << 8 | large class   first slot of a run that heap `id` keeps in its magazines
 *   id << 8 | class 128     first slot of a run of the explicit heap `id`
 *   HK_MAP_RUN_BODY         another slot of a run
 *
 * Writers: the owner of the slots (slab open and close, adoption, large). Readers: any thread, relaxed: a thread that
 * frees a block got its address through some synchronisation that came after the entry was written; a stale owner only
 * sends a free down the remote path, which is always valid.
 *
 * A live bit for each granule of 16 bytes of the window is set where a block lies with the program that came from a
 * slab or a magazine, at the block's first granule, and clear everywhere else. So one bit says that an address starts a
 * block and that it is not free, without a look at the block, whose line is often in no cache when it is freed
 * (docs/adr/0017). The slab's owner reads and writes a word of bits plainly, on each call; others clear bits
 * atomically, but of blocks from 128 bytes on, which have a byte of bits each, by plain access to that byte. A plain
 * write of a word can undo what another thread did to the same word in between. So a bit may stay set though its block
 * is free: that double free is found later, when the block comes back to its slab twice. It may also be clear though
 * the block is live (slabs change owners while their blocks lie in magazines, and threads hand out blocks of others
 * that they kept): a clear bit is a suspicion, and reported only if the block is found where free blocks are. Two
 * threads that free the same block of a third one's heap within the nanoseconds that a store takes may both find the
 * bit set; that too is found when the block comes back twice.
 *
 * On x86-64 the word of granule 0, far from the others, exists and is all ones: a malloc that finds 0 on top of an
 * empty magazine finds its live bit set, without another test. It is so before map_init too.
 *
 * MAP-1  `count` only grows; entries below it are readable for ever, and so are live bits of superslabs that ever were
 *        the region's.
 * MAP-2  HK_MAP_RUN_* ^ tag is above 255 for every tag in use; the class of both is a large one.
 */
#pragma once

#include "base/base.h"
#include "base/bits.h"
#include "core/panic.h"
#include "region/region.h"
#include "sys/sys.h"

#include <stdatomic.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bit n of the live bits is bit n % 8 of byte n / 8");

typedef uintptr_t granule_t; /* address / 16: what magazines hold */
typedef uint32_t slot_t;     /* index of a slot in the window; 0 is none, superslab 0 is never used */

enum {
    HK_OWNER_NONE = 0,
    HK_OWNER_SHARED = 1, /* the heap of slabs whose thread is gone */
    HK_OWNER_FIRST = 2,
    HK_OWNER_EXPLICIT = 1 << 21, /* from here on heaps that the program makes: heap/explicit.h */
    HK_OWNER_LIMIT = 1 << 22,
};
enum { HK_GRANULE_SHIFT = 4 };
#define HK_LIVE_SHARE      ((size_t)8 << HK_GRANULE_SHIFT) /* bytes of heap for one of live bits */
#define HK_MAP_RUN_HEAD    UINT32_C(0xfffffff1)
#define HK_MAP_RUN_BODY    UINT32_C(0xfffffff2)
#define HK_MAP_NO_TAG      UINT32_C(0xfeffff00) /* a tag that matches no entry */
#define HK_MAP_CLASS_MAX   255u
#define HK_MAP_CLASS_APART 7u /* from this class on, a block has a byte of live bits for itself */
_Static_assert(((HK_MAP_CLASS_APART + 1) << HK_GRANULE_SHIFT) == HK_LIVE_SHARE, "classes are 16 bytes apart here");
#define HK_MAP_CLASS_LARGE 128u /* classes from here on are of runs, below of slabs */

typedef struct hk_map {
    HK_ALIGNED(32) size_t first; /* address >> 16 of slot 0; constant after map_init */
    size_t count;                /* slots covered; written under the superslab lock, read by any thread */
    _Atomic uint32_t *table;     /* constant after map_init */
    uint64_t *live;              /* the word of granule 0; constant after map_init */
} hk_map_t;

extern hk_map_t hk_map HK_HIDDEN;

void map_init(void);

/* From here on the table and the live bits cover the first `slot_count` slots, the last of which are of superslabs that
 * the region has handed out. Caller holds the superslab lock. */
void map_cover(size_t slot_count);

/* Slot of an address, or a number >= hk_map.count when the address is not in the covered window. */
HK_INLINE size_t map_slot(const void *address) { return ((uintptr_t)address >> HK_SLOT_SHIFT) - hk_map.first; }

/* A plain load, so that the compiler compares with memory. It may miss growth that happens meanwhile, of which no
 * pointer that the reader holds can be part. */
HK_INLINE size_t map_count(void) { return HK_TSAN ? __atomic_load_n(&hk_map.count, __ATOMIC_RELAXED) : hk_map.count; }

HK_INLINE uint32_t map_entry(size_t slot) {
    hk_assert(slot < map_count());
    return atomic_load_explicit(&hk_map.table[slot], memory_order_relaxed);
}

/* Entry of any address; 0 when it is not in the window. */
HK_INLINE uint32_t map_lookup(const void *address) {
    size_t slot = map_slot(address);
    return slot < map_count() ? map_entry(slot) : 0;
}

/* Release: pairs with nothing that the fast path relies on (see above); it lets a diagnosing reader that finds the
 * entry also find the record behind it. */
HK_INLINE void map_set(slot_t slot, unsigned count, uint32_t entry) {
    hk_assert(slot != 0 && slot + count <= map_count());
    hk_assert((entry & HK_MAP_CLASS_MAX) < HK_MAP_CLASS_LARGE || entry == HK_MAP_RUN_BODY || count == 1);
    for (unsigned i = 0; i < count; i++)
        atomic_store_explicit(&hk_map.table[slot + i], entry, memory_order_release);
}

HK_INLINE char *map_slot_address(slot_t slot) {
    hk_assert(slot <= map_count());
    return (char *)((hk_map.first + slot) << HK_SLOT_SHIFT);
}

/* True when the entry is of a run of slots; its head when the entry is not HK_MAP_RUN_BODY. */
HK_INLINE bool map_is_run(uint32_t entry) { return (entry & HK_MAP_CLASS_MAX) >= HK_MAP_CLASS_LARGE; }

/* True when the entry is of a slab or run of a heap that the program made. */
HK_INLINE bool map_is_explicit(uint32_t entry) {
    _Static_assert(HK_OWNER_LIMIT == 2 * HK_OWNER_EXPLICIT, "one bit tells");
    return entry / ((uint32_t)HK_OWNER_EXPLICIT << 8) == 1;
}

/* --- Live bits ---------------------------------------------------------------------------------------------------- */

/* Granule of an address; one that is no multiple of 16 gives a granule outside every window. */
HK_INLINE granule_t map_granule(const void *address) {
    return (uintptr_t)address >> HK_GRANULE_SHIFT | (uintptr_t)address << (64 - HK_GRANULE_SHIFT);
}
HK_INLINE void *map_granule_address(granule_t granule) { return (void *)(granule << HK_GRANULE_SHIFT); }
HK_INLINE size_t map_granule_slot(granule_t granule) {
    return (granule >> (HK_SLOT_SHIFT - HK_GRANULE_SHIFT)) - hk_map.first;
}

/* Entry of a granule; 0 when its address is not in the window, or no multiple of 16. */
HK_INLINE uint32_t map_granule_lookup(granule_t granule) {
    size_t slot = map_granule_slot(granule);
    return hk_likely(slot < map_count()) ? map_entry(slot) : 0;
}

/* Live bit `granule` is of an address in the covered window. */
HK_INLINE uint64_t map_live_bit(granule_t granule) { return UINT64_C(1) << (granule % 64); }

HK_INLINE bool map_is_live(granule_t granule) {
    hk_assert(map_granule_slot(granule) < map_count());
    return (__atomic_load_n(&hk_map.live[granule / 64], __ATOMIC_RELAXED) & map_live_bit(granule)) != 0;
}

/* Clears the bits of slots that nobody has a block in: a bit that stayed set would make the inside of a later block
 * look like the start of one. By writing alone: a page that is read first and written then faults twice. */
void map_reset_live(slot_t slot, unsigned count);

/* The memory of the live bits of slots. */
HK_INLINE sys_range_t map_live_range(slot_t slot, unsigned count) {
    hk_assert(slot != 0 && slot + count <= map_count());
    return (sys_range_t){&hk_map.live[map_granule(map_slot_address(slot)) / 64],
                         count * (HK_SLOT_SIZE / HK_LIVE_SHARE)};
}

/* By the owner of the slab: no atomic read-modify-write, see above. */
HK_INLINE void map_set_live(granule_t granule) {
    hk_assert(map_granule_slot(granule) < map_count());
    hk_bit_set(&hk_map.live, granule);
}

/* As map_clear_live_apart, and sets it. */
HK_INLINE void map_set_live_apart(granule_t granule) {
    hk_assert(map_granule_slot(granule) < map_count());
    uint8_t *byte = (uint8_t *)hk_map.live + granule / 8;
    __atomic_store_n(byte, (uint8_t)(1u << granule % 8), __ATOMIC_RELAXED);
}

/* map_set_live in two steps: the first tells whether the bit is set already, as that of granule 0 always is. */
typedef hk_bit_place_t map_live_t;
HK_INLINE bool map_find_live(granule_t granule, map_live_t *live) {
    return (!REGION_HAS_LIVE_ORIGIN && granule == 0) || hk_bit_find(&hk_map.live, granule, live);
}
HK_INLINE void map_mark_live(const map_live_t *live) { hk_bit_mark(live); }

/* False when it was clear. */
HK_INLINE bool map_clear_live(granule_t granule) {
    hk_assert(map_granule_slot(granule) < map_count());
    return hk_bit_clear(&hk_map.live, granule);
}

/* By any thread, of a block of HK_LIVE_SHARE bytes or more: no other block has its bit in the same byte, so no atomic
 * read-modify-write is needed. False when it was clear. */
HK_INLINE bool map_clear_live_apart(granule_t granule) {
    hk_assert(map_granule_slot(granule) < map_count());
    return hk_bit_clear_in_byte((uint8_t *)hk_map.live + granule / 8, granule % 8);
}

/* By any thread. Relaxed: what passes a block on is the post, or what the program does; the bit passes on nothing. */
HK_INLINE void map_set_live_shared(granule_t granule) {
    hk_assert(map_granule_slot(granule) < map_count());
    (void)__atomic_fetch_or(&hk_map.live[granule / 64], map_live_bit(granule), __ATOMIC_RELAXED);
}

/* Clears the bit, by any thread; false when it was clear. */
HK_INLINE bool map_clear_live_shared(granule_t granule) {
    hk_assert(map_granule_slot(granule) < map_count());
    uint64_t bit = map_live_bit(granule);
    return (__atomic_fetch_and(&hk_map.live[granule / 64], ~bit, __ATOMIC_RELAXED) & bit) != 0;
}

HK_INLINE uint32_t map_tag(uint32_t owner) {
    hk_assert(owner <= HK_OWNER_LIMIT);
    return owner << 8;
}
