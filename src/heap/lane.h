/* SPDX-License-Identifier: MIT
 *
 * lane.h: what hardened heaps have in place of magazines: for each class of slabs a lane of free blocks
 * (docs/adr/0037).
 *
 *   slab --refill, shuffled--> ready --the last--> program --free--> delay --at random--> ready
 *        <--flush, looked at--
 *
 * Refills and flushes hold the heap's lock. A free puts its block into a random place of the delay and gets the block
 * that lay there, which becomes ready. So neither who is handed out next nor when a block serves again can be foretold.
 * All of them are zeros (heap/seal.h); who hands one out looks.
 *
 * Touched by the heap's thread alone, or by anybody once the thread is gone, and without a lock; its array comes and
 * goes under the heap's lock, for who counts. A fork may come between any two steps of another thread: the child may
 * lose a block, and never has one twice. So a block leaves its place before it is anywhere else, and a place holds a
 * block before it counts.
 *
 * LANE-1 For the counts of the class a lane is a magazine: what comes from slabs is refilled, what goes there is
 *        flushed, and what the program frees is pushed before it lies here. Blocks leave for slabs under the lock.
 */
#pragma once

#include "core/random.h"
#include "heap/heap.h"

enum {
    LANE_FILLED_CLASSES = HK_TINY_CLASSES + 24, /* up to 8 KiB: what lanes of larger ones have was freed into them */
};

typedef struct lane {
    granule_t *places; /* `room` places of blocks that are ready, then as many of delayed ones; NULL: never used */
    uint32_t ready;
    uint16_t delayed; /* places that have a block, of the second half */
    uint16_t room;    /* 0 without places */
} lane_t;

typedef struct lanes {
    hk_random_t random;
    lane_t lanes[HK_CLASS_COUNT];
} lanes_t;

/* Has blocks, or is filled; NULL when there are none. */
HK_NOINLINE lane_t *lane_fill(heap_t *h, unsigned cls);

HK_INLINE lane_t *lane_with_blocks(heap_t *h, unsigned cls) {
    lanes_t *all = h->front.lanes;
    return hk_likely(all != NULL && all->lanes[cls].ready > 0) ? &all->lanes[cls] : lane_fill(h, cls);
}

/* The last of those that are ready. Release: see above. */
HK_INLINE void *lane_take(lane_t *lane) {
    uint32_t last = lane->ready - 1;
    granule_t block = lane->places[last];
    hk_write_release(lane->ready, last);
    return map_granule_address(block);
}

/* Whether lane_turn may be called: nothing has to be flushed or drawn first. */
HK_INLINE bool lane_has_turn(const lanes_t *all, size_t cls) {
    const lane_t *lane = &all->lanes[cls];
    return lane->ready < lane->room && all->random.left > 0;
}

/* Puts the block into the delay, and what lay there becomes ready. */
HK_INLINE void lane_turn(lanes_t *all, size_t cls, granule_t block, size_t block_size) {
    lane_t *lane = &all->lanes[cls];
    HK_OPAQUE(lane); /* one address for all that follows */
    uint32_t ready = lane->ready, room = lane->room;
    granule_t *places = lane->places, *place = places + room + hk_random_left_below(&all->random, room);
    granule_t before = *place;
    hk_write_release(*place, block);
    if (hk_unlikely(before == 0)) {
        hk_write_release(lane->delayed, (uint16_t)(lane->delayed + 1));
        return;
    }
    const char *next = map_granule_address(before); /* it is likely to be the next one of its class, */
    __builtin_prefetch(next);                       /* and that looks at both ends first */
    __builtin_prefetch(next + block_size - 1);
    hk_write(places[ready], before);
    hk_write_release(lane->ready, ready + 1);
}

/* The same, of a block of any heap, which is zeros, where half of those that are ready may have to go back to their
 * slabs first, after a look. `caller` freed the block; NULL: not known. */
void lane_give(heap_t *h, unsigned cls, granule_t block, const void *caller);

/* Blocks of the class that lie in the lane. Under the heap's lock, under which lanes come and go. Acquire: pairs with
 * the releases of who puts them there, so that a reader that counts first and reads the other counts of a thread at
 * work then never finds less than lies here. */
HK_INLINE uint64_t lane_count(const heap_t *h, unsigned cls) {
    const lanes_t *all = hk_read_acquire(h->front.lanes);
    if (all == NULL || cls >= HK_CLASS_COUNT)
        return 0;
    uint64_t ready = hk_read_acquire(all->lanes[cls].ready);
    return ready + hk_read_acquire(all->lanes[cls].delayed);
}

/* All blocks go back to their slabs, after a look. */
void lanes_drain(heap_t *h);
