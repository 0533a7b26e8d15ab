/* SPDX-License-Identifier: MIT
 *
 * quarantine.h: at HAKMEM_SAFE=2 and 3 a large block that was freed waits before it serves again, at level 3 every
 * block, and must be untouched when it leaves.
 *
 * Blocks of slabs are zeros (heap/seal.h), large blocks too, most of them without pages (heap/wipe.h). Each heap has a
 * queue of its own, which its thread alone touches, or anybody once the thread is gone.
 *
 * At level 2 a queue holds 1 MiB. At level 3 all queues together hold as many bytes as HAKMEM_QUARANTINE says, besides
 * QUEUE_BYTES_MIN each: a queue that is full takes as much again from what is left, as long as that leaves no less than
 * it has. So a thread alone has half of all, one that comes then a quarter, and each finds something.
 */
#pragma once

#include "heap/heap.h"
#include "heap/lane.h"

enum {
    QUEUE_BYTES_MIN = 64 << 10,
    QUEUE_BYTES_AT_2 = 1 << 20,
    QUEUE_PLACES_MIN = 503,
    QUEUE_MAX = 16 << 20, /* bytes of a queue's record: no more blocks than fit */
    QUEUE_CLASS_BITS = 8,
    QUEUE_CLASS_OF_RUNS = (1 << QUEUE_CLASS_BITS) - 1, /* without pages */
    QUEUE_CLASS_OF_RESIDENT = QUEUE_CLASS_OF_RUNS - 1, /* runs that have theirs */
};

/* A ring of freed blocks, oldest at `first`; the heap's thread alone touches it. Kept in metadata memory. A fork may
 * come between any two steps, and the child must not find a place that holds nothing or a block that is elsewhere: so
 * places are written before they count, and stop counting at the far end before the near one moves on. It may lose
 * blocks. */
struct quarantine {
    uint32_t first, count, places;
    bool is_grown; /* it was as large as it could be when it was full last */
    size_t bytes, bytes_max;
    uint64_t blocks[]; /* granule << QUEUE_CLASS_BITS | class */
};

HK_INLINE uint64_t queue_oldest(const struct quarantine *q) { return q->blocks[q->first]; }
HK_INLINE granule_t queue_block(uint64_t word) { return word >> QUEUE_CLASS_BITS; }
HK_INLINE unsigned queue_class(uint64_t word) { return (unsigned)word & ((1u << QUEUE_CLASS_BITS) - 1); }

/* A place that is at most one round ahead. */
HK_INLINE uint32_t queue_place(const struct quarantine *q, uint32_t place) {
    return place < q->places ? place : place - q->places;
}

HK_INLINE void queue_pop(struct quarantine *q, size_t bytes) {
    q->bytes -= bytes;
    hk_write(q->count, q->count - 1);
    hk_write_release(q->first, queue_place(q, q->first + 1));
}

HK_INLINE bool queue_has_room(const struct quarantine *q, size_t bytes) {
    return q->count < q->places && q->bytes + bytes <= q->bytes_max;
}

HK_INLINE void queue_push(struct quarantine *q, granule_t granule, size_t cls, size_t bytes) {
    hk_write(q->blocks[queue_place(q, q->first + q->count)], granule << QUEUE_CLASS_BITS | cls);
    q->bytes += bytes;
    hk_write_release(q->count, q->count + 1);
}

/* For the counts of its class, a block of a slab that waits here is one that has been flushed. */
HK_INLINE void queue_count_in(heap_t *h, size_t cls) {
    uint64_t *flushed = &h->class_stats[cls].flushed;
    hk_write_release(*flushed, *flushed + 1); /* pairs with the acquire in heap_pops */
}
HK_INLINE void queue_count_out(heap_t *h, size_t cls) { hk_add_in_place(h->class_stats[cls].refilled, 1); }

/* Whether quarantine_turn may be called: at most one block has to leave, into a lane with room. */
HK_INLINE bool quarantine_has_turn(const heap_t *h, const lanes_t *all, size_t cls) {
    const struct quarantine *q = h->quarantine;
    if (q == NULL || queue_has_room(q, hk_class_info[cls].block_size))
        return q != NULL;
    unsigned oldest = queue_class(queue_oldest(q));
    if (!q->is_grown || oldest >= HK_CLASS_COUNT || !lane_has_turn(all, oldest))
        return false;
    return q->bytes - hk_class_info[oldest].block_size + hk_class_info[cls].block_size <= q->bytes_max;
}

/* The block waits from now on; the oldest one goes to its lane if it has to leave. */
HK_INLINE void quarantine_turn(heap_t *h, lanes_t *all, granule_t granule, size_t cls) {
    struct quarantine *q = h->quarantine;
    size_t bytes = hk_class_info[cls].block_size;
    if (hk_likely(!queue_has_room(q, bytes))) {
        uint64_t oldest = queue_oldest(q);
        size_t size = hk_class_info[queue_class(oldest)].block_size;
        queue_pop(q, size);
        queue_count_out(h, queue_class(oldest));
        const char *block = map_granule_address(queue_block(oldest));
        __builtin_prefetch(block);     /* it has left the caches long ago and serves soon, */
        __builtin_prefetch(block - 1); /* and its free looks at the seal before it */
        lane_turn(all, queue_class(oldest), queue_block(oldest), size);
    }
    queue_push(q, granule, cls, bytes);
    queue_count_in(h, cls);
}

/* `level` is 2 or 3, and all queues hold `bytes` at level 3. Once, at the start. */
void hardened_init(int level, size_t bytes);

/* The block, which was made zeros and is counted as freed, waits from now on. */
void quarantine_put(heap_t *h, void *block, unsigned cls, const void *caller);

/* So does the run at `block`, which is held (large_hold). `h` may be NULL: then it does not wait. */
void quarantine_put_run(heap_t *h, void *block, const void *caller);

/* The run that waits longest, where it has the slots for `size` bytes, lies at a multiple of `align` and would leave
 * for the next one of its kind, and half of the queue waits on: it serves again, with its fences. NULL otherwise, and
 * where a limit is reached. The caller looks whether it is zeros. Takes the lock. */
void *quarantine_take_run(heap_t *h, size_t size, size_t align);

/* Checks and releases what waits, here and in the lanes of the heap. */
void quarantine_drain(heap_t *h);
