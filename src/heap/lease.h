/* SPDX-License-Identifier: MIT
 *
 * lease.h: free blocks that a thread has of one explicit heap at a time, which it allocates from again and again.
 *
 *   FREE --a thread asks the heap often: lease_bind--> BOUND --the thread turns to another heap, or ends--> FREE
 *                                                      BOUND --the heap ends: lease_revoke_all_locked--> REVOKED
 *   REVOKED --its thread's next slow path--> FREE
 *
 * The lease belongs to one thread, which alone writes its blocks and their counts; statistics read the counts. `heap`,
 * `tag` and the heap's list of leases are written under the lock of that heap: by the thread when it binds or unbinds,
 * and by the thread that ends the heap when it revokes. The owner reads `heap` and `tag` without the lock. So it may
 * miss that its lease has just been revoked, and push one block more.
 *
 * LEASE-1  a block in it is of the class under which it lies, its live bit is clear, and it is in no slab's free bits.
 * LEASE-2  each block in a BOUND lease is of a slab of its heap. Reset and destroy free those slabs (DROPPED): the
 *          thread then forgets the blocks. Release gives the slabs to other heaps: the thread then frees the blocks.
 * LEASE-3  nobody takes blocks from a lease that is not BOUND.
 * LEASE-4  slabs[] has, for each class, the slab that it was filled from last; a hint. The slab's `taker` says which
 *          lease was filled from it last. Each is filled from slabs of its own as far as it can be, so that threads
 *          that share a heap do not share cache lines of blocks and of live bits.
 *
 * A heap with a limit has no leases: what one thread keeps might be what another is refused. Nor has any heap at safety
 * levels 2 and 3. Model: docs/models/explicit.pml.
 */
#pragma once

#include "base/relaxed.h"
#include "heap/heap.h"

enum {
    LEASE_PLACES = 64,       /* of a class in blocks[]: one is 0, below */
    LEASE_BLOCKS = 63,       /* ... its blocks, which are so many at most, */
    LEASE_BYTES = 32 * 1024, /* ... and as few as fit in here, one at least */
    LEASE_PUSH = 1 << 16 | 1,
};

typedef enum lease_fate { LEASE_GOES_ON, LEASE_DROPPED, LEASE_RELEASED } lease_fate_t;

typedef struct lease {
    heap_t *heap;                      /* no heap when not BOUND: lease.c */
    uint32_t tag;                      /* map_tag of its id, or HK_MAP_NO_TAG */
    uint32_t fate;                     /* lease_fate_t; written under the lock, before `heap` */
    struct lease *next, *previous;     /* leases of the heap; under its lock */
    const heap_t *asked;               /* the heap that was asked last under its lock, */
    uint32_t streak;                   /* ... and how often in a row; both the thread's */
    uint32_t taker;                    /* the id of the thread's heap; constant */
    uint32_t apart_from;               /* the class from which on live bits are changed by plain stores; constant */
    uint8_t rooms[HK_CLASS_COUNT];     /* blocks that it may have; constant */
    uint8_t wants[HK_CLASS_COUNT];     /* the next refill; the thread */
    uint8_t left_with[HK_CLASS_COUNT]; /* counts when it was released; under the lock, before `heap` */
    slot_t slabs[HK_CLASS_COUNT];      /* LEASE-4; under the lock */
    /* Low 16 bits: where the class's last block lies in blocks[]. Above them: the frees that the heap's own counts do
     * not include yet. One word, so that a reader finds both as of one moment. The thread writes it. */
    uint64_t counts[HK_CLASS_COUNT];
    /* A class's last place is a multiple of LEASE_PLACES, and below the first of its `rooms` lies a 0: so neither a
     * free nor an allocation asks how many it may have. Place 0 is 0 too: the last one of a class that was never used,
     * which thus is empty and full. Without contents at first. */
    granule_t blocks[HK_CLASS_COUNT * LEASE_PLACES + 1];
} lease_t;

HK_INLINE unsigned lease_last(uint64_t counts) { return counts & UINT16_MAX; }
HK_INLINE unsigned lease_bottom(const lease_t *lease, unsigned cls) {
    return (cls + 1) * LEASE_PLACES - lease->rooms[cls];
}
HK_INLINE unsigned lease_count(const lease_t *lease, unsigned cls, uint64_t counts) {
    return lease_last(counts) == 0 ? 0 : lease_last(counts) - lease_bottom(lease, cls);
}
HK_INLINE uint64_t lease_pushes(uint64_t counts) { return counts >> 16; }

/* A block of `size` bytes, not 0, if the thread has a lease of the heap with one. Its live bit is set. */
HK_INLINE void *lease_take(const void *heap, size_t size) {
    lease_t *lease = hk_front->lease;
    size_t size_minus_1 = size - 1;
    if (hk_unlikely(lease == NULL || hk_read(lease->heap) != heap))
        return NULL;
    unsigned cls;
    if (hk_likely(size_minus_1 < HK_TINY_MAX))
        cls = (unsigned)(size_minus_1 / HK_ALIGNMENT);
    else if (size_minus_1 < HK_MID_MAX)
        cls = class_of_mid(size_minus_1);
    else
        return NULL;
    uint64_t counts = lease->counts[cls];
    granule_t granule = lease->blocks[lease_last(counts)];
    if (hk_unlikely(granule == 0))
        return NULL;
    hk_write(lease->counts[cls], counts - 1);
    if (cls < lease->apart_from)
        map_set_live_shared(granule);
    else
        map_set_live_apart(granule);
    return map_granule_address(granule);
}

/* Takes a block that the program frees, if it is live and of the heap that the thread has a lease of. */
HK_INLINE bool lease_put(const heap_front_t *front, uint32_t entry, granule_t granule) {
    lease_t *lease = front->lease;
    if (lease == NULL)
        return false;
    unsigned cls = entry - hk_read(lease->tag);
    if (cls >= HK_CLASS_COUNT)
        return false;
    uint64_t counts = lease->counts[cls];
    unsigned last = lease_last(counts);
    if (hk_unlikely(last % LEASE_PLACES == 0))
        return false;
    if (hk_unlikely(!(cls < lease->apart_from ? map_clear_live_shared(granule) : map_clear_live_apart(granule))))
        return false;
    __builtin_prefetch(map_granule_address(granule), 1); /* the next of its class: see docs/adr/0038 */
    lease->blocks[last + 1] = granule;
    /* Release: for the child of a fork, which must not find a count without its block. */
    hk_write_release(lease->counts[cls], counts + LEASE_PUSH);
    return true;
}

/* Makes the lease of the thread's heap one of `h`, if the thread has asked for that often. False: it is not. */
bool lease_bind(heap_t *thread, heap_t *h);

/* Before the class's first block. */
void lease_begin(lease_t *lease, unsigned cls);

/* Makes room for a block of the class: half of the class's blocks go back to their slabs. False when the thread no
 * longer has a lease of the entry's heap. */
bool lease_make_room(heap_t *thread, uint32_t entry);

/* Puts in a block whose live bit the caller has cleared, where there is room. */
void lease_push(lease_t *lease, unsigned cls, granule_t granule);

/* The slab of the class that the lease was filled from last, or NULL. Caller holds the lock of its heap. */
slab_t *lease_slab_locked(const lease_t *lease, unsigned cls);

/* It is filled from that slab. Caller holds the lock of its heap. */
void lease_note_slab_locked(lease_t *lease, slab_t *slab);

/* Whether the thread's heap with that id has a lease of the heap. Caller holds its lock. */
bool lease_has_taker_locked(const heap_t *h, uint32_t taker);

/* The thread is over, or wants to keep nothing: all go back. For the heap's thread, or anybody once that is gone. */
void lease_end(heap_t *thread);

/* The heap ends or is emptied: nobody has a lease of it from here on. Subtracts the blocks that they had from used[],
 * unless it is NULL. Caller holds the heap's lock. Returns their bytes. */
size_t lease_revoke_all_locked(heap_t *h, lease_fate_t fate, uint64_t used[HK_CLASS_COUNT]);

/* Blocks of the class in leases of the heap, and those that came there by frees. Caller holds its lock. */
uint64_t lease_count_locked(const heap_t *h, unsigned cls, uint64_t *pushes);
