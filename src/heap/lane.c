/* SPDX-License-Identifier: MIT */
#include "heap/lane.h"

#include "heap/flush.h"
#include "heap/seal.h"
#include "heap/supply.h"
#include "map/meta.h"

#include <string.h>

enum {
    LANE_BYTES = 16 << 10,      /* ready, and as many delayed: they are to be in a cache yet when they come back, */
    LANE_PLACES_MAX = 64,       /* but no more blocks, */
    LANE_PLACES_MIN = 4,        /* and no less, */
    LANE_BYTES_MAX = 128 << 10, /* unless those are more bytes */
};

static size_t places_bytes(unsigned room) { return 2 * room * sizeof(granule_t); }

static lanes_t *lanes_of(heap_t *h) {
    if (h->front.lanes != NULL)
        return h->front.lanes;
    lanes_t *all = meta_alloc(sizeof *all);
    if (all == NULL)
        return NULL;
    memset(all, 0, sizeof *all);
    hk_random_stir(&all->random);
    hk_write_release(h->front.lanes, all);
    return all;
}

/* The sizes come before the places, for who counts in between. */
static lane_t *lane_of(heap_t *h, unsigned cls) {
    lanes_t *all = lanes_of(h);
    if (all == NULL || all->lanes[cls].places != NULL)
        return all == NULL ? NULL : &all->lanes[cls];
    lane_t *lane = &all->lanes[cls];
    hk_assert(cls < HK_CLASS_COUNT);
    size_t size = hk_class_info[cls].block_size, least = hk_min(LANE_PLACES_MIN, hk_max(LANE_BYTES_MAX / size, 1));
    uint32_t room = (uint32_t)hk_max(least, hk_min(LANE_BYTES / size, LANE_PLACES_MAX));
    granule_t *places = meta_alloc(places_bytes(room));
    if (places == NULL)
        return NULL;
    memset(places, 0, places_bytes(room));
    lane->room = (uint16_t)room;
    heap_lock(h);
    hk_write_release(lane->places, places);
    heap_unlock(h);
    return lane;
}

static void shuffle(hk_random_t *random, granule_t *blocks, unsigned count) {
    for (; count > 1; count--) {
        unsigned other = hk_random_below(random, count);
        granule_t last = blocks[count - 1];
        blocks[count - 1] = blocks[other];
        blocks[other] = last;
    }
}

/* Blocks that come from a slab are looked at before they are written to. A page that is new would first be mapped to
 * the kernel's page of zeros, and be exchanged with the first write, for which all processors are interrupted. */
static void touch_pages(granule_t granule, size_t block_size) {
    enum { PAGE_MIN = 4096 };
    char *block = map_granule_address(granule);
    for (size_t at = 0; at < block_size; at += PAGE_MIN)
        hk_touch(&block[at]);
    hk_touch(&block[block_size - 1]);
}

lane_t *lane_fill(heap_t *h, unsigned cls) {
    lane_t *lane = cls < LANE_FILLED_CLASSES ? lane_of(h, cls) : NULL;
    if (lane == NULL || lane->ready > 0)
        return lane;
    unsigned want = lane->room / 2u;
    heap_lock(h);
    unsigned got = heap_take_locked(h, cls, lane->places + want, want);
    double_frees_t double_frees = heap_take_double_frees_locked(h);
    heap_count_taken_locked(h, cls, got);
    h->class_stats[cls].refills++;
    if (got < want)
        memmove(lane->places, lane->places + want - got, got * sizeof *lane->places);
    shuffle(&h->front.lanes->random, lane->places, got);
    heap_unlock(h);
    for (unsigned i = 0; i < got; i++) /* before they count: nobody else may have one yet */
        touch_pages(lane->places[i], hk_class_info[cls].block_size);
    hk_add(h->class_stats[cls].refilled, got);
    hk_write_release(lane->ready, got);
    heap_report_double_frees(h, &double_frees);
    return got > 0 ? lane : NULL;
}

static void look(granule_t granule, unsigned cls, const void *caller) {
    void *block = map_granule_address(granule);
    size_t block_size = hk_class_info[cls].block_size;
    if (hk_unlikely(!seal_spots_are_zero(block, block_size)))
        seal_report_written(block, block_size, caller);
}

/* Which of them leave is as random as what lies there. Each is looked at: with its slab its page may go, and what was
 * written there with it. */
static void flush(heap_t *h, unsigned cls, lane_t *lane, const void *caller) {
    unsigned half = lane->room / 2u, count = lane->ready;
    heap_lock(h); /* for who counts: LANE-1 */
    hk_write_release(lane->ready, half);
    h->class_stats[cls].flushed += count - half;
    heap_unlock(h);
    for (unsigned i = half; i < count; i++)
        look(lane->places[i], cls, caller);
    heap_give_batch(h, cls, lane->places + half, count - half, 0);
}

void lane_give(heap_t *h, unsigned cls, granule_t block, const void *caller) {
    lane_t *lane = lane_of(h, cls);
    if (lane == NULL) {
        hk_add(h->class_stats[cls].flushed, 1);
        heap_give_batch(h, cls, &block, 1, 0);
        return;
    }
    if (lane->ready == lane->room)
        flush(h, cls, lane, caller);
    if (h->front.lanes->random.left == 0)
        hk_random_fill(&h->front.lanes->random);
    lane_turn(h->front.lanes, cls, block, hk_class_info[cls].block_size);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

/* A fork in between may have left a place without its block. */
static HK_COLD void drain(heap_t *h, unsigned cls, lane_t *lane) {
    granule_t blocks[2 * LANE_PLACES_MAX];
    unsigned count = 0, ready = lane->ready;
    heap_lock(h); /* for who counts: LANE-1 */
    hk_write_release(lane->ready, 0);
    for (unsigned i = 0; i < 2 * lane->room; i++) {
        if (lane->places[i] == 0 || (i >= ready && i < lane->room))
            continue;
        blocks[count++] = lane->places[i];
        hk_write_release(lane->places[i], 0);
    }
    hk_write_release(lane->delayed, 0);
    h->class_stats[cls].flushed += count;
    heap_unlock(h);
    for (unsigned i = 0; i < count; i++)
        look(blocks[i], cls, NULL);
    if (count > 0)
        heap_give_batch(h, cls, blocks, count, 0);
}

HK_COLD void lanes_drain(heap_t *h) {
    lanes_t *all = h->front.lanes;
    if (all == NULL)
        return;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        if (all->lanes[cls].places != NULL)
            drain(h, cls, &all->lanes[cls]);
    heap_lock(h);
    hk_write_release(h->front.lanes, NULL);
    heap_unlock(h);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        if (all->lanes[cls].places != NULL)
            meta_free(all->lanes[cls].places, places_bytes(all->lanes[cls].room));
    meta_free(all, sizeof *all);
}
