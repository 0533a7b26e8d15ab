/* SPDX-License-Identifier: MIT
 *
 * lane.h: what hardened heaps have in place of magazines: for each class up to LANE_BLOCK_MAX a lane of free blocks
 * (docs/adr/0037).
 *
 *   slab --refill, under the heap's lock--> ready --at random--> program --free--> delay --at random--> ready
 *                                           ready --flush, under the lock--> slabs
 *
 * A free puts its block into a random place of the delay and gets the block that lay there, which becomes ready. An
 * allocation takes any of those that are ready. So neither who is handed out next nor when a block serves again can be
 * foretold. All of them are zeros (heap/seal.h); who hands one out looks.
 *
 * Touched by the heap's thread alone, or by anybody once the thread is gone, and without a lock; its array comes and
 * goes under the heap's lock, for who counts. A fork may come between any two steps of another thread: the child may
 * lose a block, and never has one twice. So a block leaves its place before it is anywhere else, and a place holds a
 * block before it counts.
 */
#ifndef HK_HEAP_LANE_H
#define HK_HEAP_LANE_H

#include "heap/random.h"
#include "heap/heap.h"

enum {
    LANE_BLOCK_MAX = 8192,
    LANE_CLASSES = HK_TINY_CLASSES + 24, /* up to LANE_BLOCK_MAX */
};

typedef struct lane {
    granule_t *places; /* `room` places of blocks that are ready, then `delay` others; NULL: never used */
    uint32_t ready;
    uint16_t room, delay;
} lane_t;

typedef struct lanes {
    hk_random_t random;
    lane_t lanes[LANE_CLASSES];
} lanes_t;

/* Has blocks, or is filled; NULL when memory is out. `cls` is below LANE_CLASSES. */
HK_NOINLINE lane_t *lane_fill(heap_t *h, unsigned cls);

HK_INLINE lane_t *lane_with_blocks(heap_t *h, unsigned cls) {
    lanes_t *all = h->lanes;
    return hk_likely(all != NULL && all->lanes[cls].ready > 0) ? &all->lanes[cls] : lane_fill(h, cls);
}

/* One of those that are ready. Releases: see above. */
HK_INLINE void *lane_take(heap_t *h, lane_t *lane) {
    uint32_t last = lane->ready - 1, at = hk_random_below(&h->lanes->random, lane->ready);
    granule_t *places = lane->places, block = places[at];
    hk_write_release(places[at], 0);
    hk_write_release(lane->ready, last);
    hk_write_release(places[at], places[last]);
    return map_granule_address(block);
}

/* The block, of any heap, which is zeros, becomes ready. */
void lane_push(heap_t *h, unsigned cls, granule_t block);

/* Puts the block into the delay. False when the class has no lane yet. */
HK_INLINE bool lane_give(heap_t *h, unsigned cls, granule_t block) {
    lanes_t *all = h->lanes;
    if (hk_unlikely(all == NULL || all->lanes[cls].places == NULL))
        return false;
    lane_t *lane = &all->lanes[cls];
    granule_t *place = lane->places + lane->room + hk_random_below(&all->random, lane->delay), before = *place;
    hk_write_release(*place, block);
    if (hk_likely(before != 0 && lane->ready < lane->room)) {
        hk_write(lane->places[lane->ready], before);
        hk_write_release(lane->ready, lane->ready + 1);
    } else if (before != 0) {
        lane_push(h, cls, before);
    }
    return true;
}

/* Blocks of the class that lie in the lane. Under the heap's lock; of a thread that works meanwhile, about so many. */
uint64_t lane_count(const heap_t *h, unsigned cls);

/* All blocks go back to their slabs, after a look. */
void lanes_drain(heap_t *h);

#endif
