/* SPDX-License-Identifier: MIT
 *
 * heap.h: one thread's heap.
 *
 * In front, touched by its thread alone and without synchronisation: a magazine per class, an array of free blocks, by
 * their granules. Behind it, under the heap's lock: the slabs that the heap owns. The shared heap (id 1) has no thread
 * and no magazines; it owns the slabs of threads that are gone until somebody adopts them.
 *
 *   heap states:  UNUSED --heap_start--> LIVE --thread exit--> UNUSED (its slabs go to the shared heap)
 *                 LIVE --thread exit, small--> PARKED --heap_start--> LIVE
 *                 PARKED, UNUSED --helper, trim--> RETIRING --> UNUSED
 *                 LIVE --its thread is gone, and nobody told (upkeep/unnoticed.h)--> RETIRING --> UNUSED
 *                 LIVE, RETIRING --fork, in the child--> ORPHAN --first refill that adopts--> RETIRING --> UNUSED
 *
 * Which thread may touch what:
 *   front.*                   the heap's thread, or the one that retires it; any reads it relaxed (statistics, reports)
 *   large                     as front; those of the shared heap, any thread
 *   remote_table, outbox      the heap's thread; any may read it (reports)
 *   lists, class_stats, ...   the holder of `lock`; counts move to the shared heap under hk_record_lock too
 *   inbox                     any thread pushes; the holder of `lock` takes
 *
 * HEAP-1  a block is in exactly one place: with the program, in a magazine (of a heap, or of a lease of an explicit
 *         one), in a remote table, in a message, in free_bits.
 * HEAP-2  an OPEN slab that the heap owns is in exactly one list: partial[class][bin] by its free_count, or full; it is
 *         moved by the free that reaches its settle_at. Empty ones come first in the last bin, and `spares` has the
 *         class's bit.
 * HEAP-3  a thread that holds one heap's lock takes no other heap's but the shared heap's.
 */
#pragma once

#include "base/base.h"
#include "base/relaxed.h"
#include "core/lock.h"
#include "core/panic.h"
#include "large/large.h"
#include "map/map.h"
#include "sample/sampler.h"
#include "slab/size_class.h"
#include "slab/slab.h"

#include <stdatomic.h>

enum {
    HEAP_BINS = 4,              /* partial slabs by quarters of free blocks; the fullest are used first */
    HEAP_BIN_EMPTY = HEAP_BINS, /* what an empty slab has for a bin: it is in the last one's list, at its head */
    HEAP_REMOTE_ENTRIES = 256,
    HEAP_OUTBOX = 8,                     /* owners that a thread has a message for */
    HEAP_INBOX_MAX = 256,                /* messages that wait at a heap, about */
    MESSAGE_WORDS = 63,                  /* of remote frees in a message */
    HEAP_REMOTE_PENDING_BYTES = 8 << 10, /* of remote frees that any thread may hold back */
    HEAP_BORROWED_MAX = 12, /* blocks of larger classes that a class has before it gets a slab of its own, */
    HEAP_BORROW_SHARE = 3,  /* ... larger by this part at the most */
    HEAP_SLOT_WORDS = 16,   /* superslabs of which a heap keeps free slots at most */
    HEAP_STRIDE = 24576,
    HEAP_TICK_BYTES = 4 << 20, /* allocated from one tick to the next, */
    HEAP_TICK_MID_BYTES =
        1024, /* ... where a block above HK_TINY_MAX counts so much, so that ticks stay rare whatever the size */
};

enum { HEAP_UNUSED = 0, HEAP_LIVE, HEAP_ORPHAN, HEAP_PARKED, HEAP_RETIRING, HEAP_EXPLICIT };

/* A magazine. The block on top is here and not in the array, so that the malloc after a free finds it with one load;
 * where there is none, it is 0, as is the array's first place, below the first block. Written by its thread, read
 * relaxed. */
typedef struct HK_ALIGNED(32) magazine {
    granule_t top;    /* what malloc takes */
    granule_t *below; /* where the next one lies: count - 1 from the array's start; NULL without an array */
    granule_t *last;  /* `below` when the magazine is full */
    uint64_t pushes;  /* blocks that came by frees; allocations follow from the other figures */
} magazine_t;

typedef struct heap_front {
    uint32_t tag; /* id << 8 */
    uint32_t id;
    int64_t countdown;   /* bytes to the next tick or sample: slow/tick.h */
    struct lanes *lanes; /* thread's own, but it goes under the lock: lane.h; NULL: none */
    struct lease *lease; /* thread's own: lease.h; NULL: none */
    magazine_t magazines[HK_MAGAZINE_COUNT];
} heap_front_t;

enum { HEAP_NAME_MAX = 32 };

/* What a heap that the program makes has in place of the front: explicit.h. Under the heap's lock. */
typedef struct heap_own {
    uint32_t tag;                          /* as the front's, */
    uint32_t id;                           /* and so is this */
    uint64_t classes[HK_CLASS_COUNT / 64]; /* a bit for each class that it may have slabs or counts of */
    struct lease *leases;                  /* what threads have of it: lease.h */
    slot_t runs;                           /* the first of its large blocks */
    bool had_huge;                         /* it may have huge blocks */
    bool is_warm;                          /* it has ended, and its record is as it was; under the heap-list lock */
    size_t run_bytes;
    size_t limit_bytes, peak_bytes; /* of slots and mappings; 0: no limit */
    uint64_t big_allocs;            /* blocks without a slab, ever */
    char name[HEAP_NAME_MAX];
} heap_own_t;

/* What only the slow paths need of a class, in one piece: a thread that uses small blocks touches a page less. */
typedef struct heap_class_stats {
    uint64_t seen_pops;    /* at the last tick; the heap's thread */
    uint64_t refilled;     /* blocks put into the magazine from slabs */
    uint64_t flushed;      /* blocks taken out of the magazine to slabs */
    uint64_t freed_remote; /* blocks of other heaps freed by this thread */
    uint64_t kept;         /* ... that went into its magazine; both written by the heap's thread, read by statistics */
    uint32_t refills;
    uint32_t flushes;
    uint32_t slab_count;    /* changed under the lock; read without it, to choose */
    uint8_t events;         /* refills and flushes since the last tick: what magazine growth follows */
    uint8_t idle_ticks;     /* in which nobody allocated */
    uint8_t still_ticks;    /* ... in which nobody freed either */
    uint8_t borrowed : 7;   /* blocks of larger classes handed out in place of the first ones of this class */
    uint8_t circulates : 1; /* the thread keeps what it frees of others: it did so often from tick to tick */
    uint32_t freed_blocks;  /* into slabs, less what was taken, since the helper looked; never below 0 */
    uint16_t seen;          /* of magazine and flushes at the last tick: what a free changes */
    uint16_t seen_remote;   /* of freed_remote at the last tick; its low bits */
    granule_t *array;       /* of the magazine; read by anybody, relaxed */
    slot_t partial[HEAP_BINS];
} heap_class_stats_t;

typedef struct remote_entry {
    uint64_t key;  /* heap_remote_key; 0: nobody's */
    uint64_t bits; /* 0 when nobody's */
} remote_entry_t;

/* Blocks that were freed twice. */
typedef struct double_frees {
    uint32_t count;
    uint32_t block_size; /* of the last of them that is known */
    const void *block;   /* NULL: none is known */
} double_frees_t;

/* Remote frees on their way to the heap `to`: messages.c. */
typedef struct message {
    struct message *next; /* in the inbox */
    uint32_t to, count;
    remote_entry_t words[MESSAGE_WORDS];
} message_t;

typedef struct heap {
    HK_ALIGNED(HK_CACHE_LINE) hk_lock_t lock;
    _Atomic uint32_t life;   /* HEAP_*; written under the heap-list lock */
    uint32_t next_unused;    /* list of unused or of parked ids, under the heap-list lock, or local to a retirement */
    _Atomic uint64_t thread; /* whose end nobody tells, 0 when libc does: upkeep/unnoticed.h */
    slot_t full;
    bool is_held_by_fork;                 /* start/fork.c; under the heap-list lock */
    bool has_swept;                       /* in the last streak; the heap's thread */
    bool guard_due;                       /* a guarded block, the next one that fits; the heap's thread */
    uint64_t spares[HK_CLASS_COUNT / 64]; /* a bit for each class that may have an empty slab */
    double_frees_t double_frees;          /* double frees that a drain came upon, to be reported without the lock */
    _Atomic uint32_t slot_count;          /* slots of its slabs; written under the lock, read without */
    uint8_t sweep_shift;                  /* how often it refilled after a sweep (magazine.c); the heap's thread */
    uint8_t asked;                        /* for classes that are earned: magazine_is_earned; the heap's thread */
    uint8_t waits; /* of its thread for the pool, against visits without: slot_cache.c; read by others too */
    _Atomic uint64_t slot_cache[HEAP_SLOT_WORDS]; /* slot_cache.h */
    size_t magazine_bytes;                        /* what the magazines can hold; the heap's thread */
    uint64_t magazines_in_use[3];                 /* a bit for each magazine that has a capacity; the heap's thread */
    size_t streak_bytes;                          /* flushed since the thread last allocated; the heap's thread */
    size_t streak_total;      /* streak_bytes, and what left the other magazines then; the heap's thread */
    int64_t streak_countdown; /* the countdown when streak_bytes was last written; the heap's thread */
    uint64_t runs_before;     /* bytes of runs when the thread began, by the heap's counts; read by others too */
    int64_t countdown_set;    /* what the countdown was set to; this and the next, the heap's thread */
    uint64_t tick_charged;    /* bytes allocated since the last tick, when it was set */
    int64_t tick_left;        /* bytes to be allocated before it pays to look for a tick; the heap's thread */
    uint64_t tick_flushed;    /* bytes flushed since the last tick: a thread that only frees has ticks too */
    size_t refilled_bytes;    /* from slabs, since it last looked how far a limit is; the heap's thread */
    uint64_t guard_random;    /* of the distance to the next guarded block; this and the next, the heap's thread */
    int64_t guard_left;       /* bytes to it, when guard_random is not 0 */
    sample_draw_t draw;       /* to the next sample; the heap's thread */
    uint64_t lock_takes;
    uint64_t idle_takes;           /* lock_takes when it was last seen to change: adoption */
    uint64_t ended_since_ms;       /* of one without a thread, as the next; written when it is put on a list */
    size_t ended_with_bytes;       /* what it may hold; under the heap-list lock */
    uint64_t seen_takes;           /* lock_takes at the last maintenance round: equal means idle */
    _Atomic size_t freed_bytes;    /* the sum of the classes' freed_blocks, in bytes; also read without the lock */
    size_t posted_bytes;           /* remote frees since the helper was called; own, or under the shared one's lock */
    uint32_t remote_pending_bytes; /* thread's own, as the next */
    uint32_t remote_earned_bytes;  /* so much may be pending beyond that: remote.c */
    uint32_t remote_batches;       /* thread's own: posted, not yet in the counter that all threads share */
    uint32_t idle_since_ms;        /* when idle_takes was last seen to change; under the lock */
    uint64_t remote_used[HEAP_REMOTE_ENTRIES / 64]; /* thread's own: entries that may be somebody's */
    message_t *outbox[HEAP_OUTBOX];                 /* as remote_table: messages being filled, by owner */
    struct quarantine *quarantine;                  /* thread's own: quarantine.h */
    size_t waiting_bytes;                           /* runs in it that have their pages; for readers from outside */
    large_counts_t large;                           /* runs that its thread took and freed */

    HK_ALIGNED(HK_CACHE_LINE) _Atomic(message_t *) inbox;
    _Atomic uint32_t inbox_count; /* about so many messages are in it: a bound for senders */
    message_t *opened; /* taken from the inbox and gone through at this moment, under the lock: for reports */

    HK_ALIGNED(HK_CACHE_LINE) union {
        heap_front_t front;
        heap_own_t own;
    };
    /* From the first whole page of magazines on all is 0 while the heap is nobody's, and given back:
     * upkeep/record.h. */
    heap_class_stats_t class_stats[HK_MAGAZINE_COUNT];
    remote_entry_t remote_table[HEAP_REMOTE_ENTRIES];
} heap_t;

_Static_assert(sizeof(heap_t) <= HEAP_STRIDE, "heaps lie HEAP_STRIDE apart");

/* The front of a thread without a heap: every malloc and free on it takes the slow path. Shared by all threads without
 * a heap; its countdown is written and never used. */
extern heap_front_t hk_no_heap HK_HIDDEN;

extern _Thread_local heap_front_t *hk_front __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Where the record of a heap lies in its area: those of explicit heaps in the last quarter. */
HK_INLINE size_t heap_place(uint32_t id) {
    return (size_t)(id % HK_OWNER_EXPLICIT) * HEAP_STRIDE +
           (id < HK_OWNER_EXPLICIT ? 0 : hk_window.area_sizes[REGION_AREA_HEAPS] / 4 * 3);
}

HK_INLINE heap_t *heap_by_id_here(uint32_t id) {
    hk_assert(id != HK_OWNER_NONE && id < HK_OWNER_LIMIT);
    return (heap_t *)(hk_window.areas[REGION_AREA_HEAPS] + heap_place(id));
}

HK_HIDDEN heap_t *heap_by_id_by_call(uint32_t id); /* for HK_SMALL */

HK_INLINE heap_t *heap_by_id(uint32_t id) { return HK_SMALL ? heap_by_id_by_call(id) : heap_by_id_here(id); }

/* Whether a block of the class `larger` may serve as one of `cls`: realloc and sized frees take no offence at it
 * (heap_block_stays). */
HK_INLINE bool heap_may_borrow(unsigned cls, unsigned larger) {
    const uint32_t size = hk_class_info[cls].block_size;
    return larger < HK_CLASS_COUNT && hk_class_info[larger].block_size <= size + size / HEAP_BORROW_SHARE;
}

/* Blocks in a magazine. The heap's thread; another one holds the lock, under which arrays change. Acquire: pairs with
 * the release in magazine_push, so that a thread that counts first and reads the pushes then never misses one. */
HK_INLINE uint64_t heap_magazine_count(const heap_t *h, unsigned cls) {
    hk_assert(cls < HK_MAGAZINE_COUNT);
    const granule_t *below = hk_read_acquire(h->front.magazines[cls].below);
    return below == NULL ? 0 : (uint64_t)(below - h->class_stats[cls].array + 1);
}

HK_INLINE unsigned heap_magazine_capacity(const heap_t *h, unsigned cls) {
    hk_assert(cls < HK_MAGAZINE_COUNT);
    const granule_t *last = h->front.magazines[cls].last;
    return last == NULL ? 0 : (unsigned)(last - h->class_stats[cls].array + 1);
}

/* Blocks of the class allocated by this heap: what came in by refills and frees and is neither there, `count` blocks
 * that were counted before this call, nor flushed. Exact for the heap's thread; another one holds the lock, and may
 * count frees of this moment as allocations too. */
HK_INLINE uint64_t heap_pops(const heap_t *h, unsigned cls, uint64_t count) {
    const heap_class_stats_t *stats = &h->class_stats[cls];
    const uint64_t flushed = hk_read_acquire(stats->flushed); /* first: what was flushed has been pushed */
    return hk_read(h->front.magazines[cls].pushes) + hk_read(stats->refilled) - flushed - count;
}

/* Puts a block on top; the magazine has room. The child of a fork may lose a block, and never has one twice: what
 * counts is `below`. What was read is written, not added to in place: the next malloc of the class waits for these
 * stores. */
HK_INLINE void magazine_push(magazine_t *magazine, granule_t granule) {
    hk_assert(granule != 0 && magazine->below != magazine->last);
    granule_t *below = magazine->below;
    hk_write(below[1], hk_read_in_place(magazine->top));
    hk_write(magazine->top, granule);
    hk_add_in_place(magazine->pushes, 1);
    /* Release: pairs with the acquire in heap_magazine_count and is_in_magazine; and for the child of a fork. */
    hk_write_release(magazine->below, below + 1);
}

HK_INLINE heap_t *heap_of_front(heap_front_t *front) { return (heap_t *)((char *)front - offsetof(heap_t, front)); }

/* Taken off the countdown of a thread by another one that wants it to look: it is below 0 then, and what the thread has
 * allocated is still known. More than any countdown. */
#define HEAP_HURRY (INT64_C(1) << 62)

/* Without that. The heap's thread. */
HK_INLINE int64_t heap_countdown(const heap_t *h) {
    const int64_t left = hk_read(h->front.countdown);
    return left < -HEAP_HURRY / 2 ? left + HEAP_HURRY : left;
}

/* The next look at the countdown finds that it ran out, and looks for a tick; nothing more was charged. The heap's
 * thread. */
HK_INLINE void heap_run_out(heap_t *h) {
    h->countdown_set = (int64_t)((uint64_t)h->countdown_set - (uint64_t)heap_countdown(h) - 1);
    h->tick_left = 0;
    hk_write(h->front.countdown, -1);
}

HK_INLINE heap_t *heap_shared(void) { return heap_by_id_here(HK_OWNER_SHARED); }

/* 0, or HAKMEM_SAFE when it is 2 or 3; constant after the start. */
extern int hk_hardened_level HK_HIDDEN;
HK_INLINE bool hardened_is_on(void) { return hk_hardened_level != 0; }

/* With the lock in place (core/lock.h): for who takes or gives one block. */
HK_INLINE void heap_lock_here(heap_t *h) {
    hk_lock_here(&h->lock);
    h->lock_takes++;
}

HK_INLINE void heap_unlock_here(heap_t *h) { hk_unlock_here(&h->lock); }

HK_INLINE void heap_lock(heap_t *h) {
    hk_lock(&h->lock);
    h->lock_takes++;
}

HK_INLINE void heap_unlock(heap_t *h) { hk_unlock(&h->lock); }

/* Blocks that went from magazines or other threads to the slabs, and back. Caller holds the lock. */
HK_INLINE void heap_count_freed_locked(heap_t *h, unsigned cls, uint32_t blocks) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(cls < HK_MAGAZINE_COUNT);
    size_t bytes = atomic_load_explicit(&h->freed_bytes, memory_order_relaxed);
    h->class_stats[cls].freed_blocks += blocks;
    bytes += blocks * (size_t)hk_class_info[cls].block_size;
    atomic_store_explicit(&h->freed_bytes, bytes, memory_order_relaxed);
}

HK_INLINE void heap_count_taken_locked(heap_t *h, unsigned cls, uint32_t blocks) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(cls < HK_MAGAZINE_COUNT);
    size_t bytes = atomic_load_explicit(&h->freed_bytes, memory_order_relaxed);
    uint32_t rest = h->class_stats[cls].freed_blocks;
    blocks = blocks < rest ? blocks : rest;
    h->class_stats[cls].freed_blocks = rest - blocks;
    bytes -= blocks * (size_t)hk_class_info[cls].block_size;
    atomic_store_explicit(&h->freed_bytes, bytes, memory_order_relaxed);
}

HK_INLINE size_t heap_freed_bytes(const heap_t *h) {
    return atomic_load_explicit(&h->freed_bytes, memory_order_relaxed);
}

/* --- All heaps ---------------------------------------------------------------------------------------------------- */

/* Birth and death of heaps; for fork. */
extern hk_lock_t hk_heap_list_lock;

/* One past the highest id in use. */
extern _Atomic uint32_t hk_heap_id_limit HK_HIDDEN;

HK_INLINE uint32_t heap_limit(void) { return atomic_load_explicit(&hk_heap_id_limit, memory_order_acquire); }

/* One past the highest id of an explicit heap that was ever in use. */
extern _Atomic uint32_t hk_explicit_id_limit;

HK_INLINE uint32_t heap_explicit_limit(void) {
    return atomic_load_explicit(&hk_explicit_id_limit, memory_order_acquire);
}

/* Whether there is a record of the id. */
bool heap_has_id(uint32_t id);

/* Makes the record one of a heap without blocks. */
void heap_prepare(heap_t *h, uint32_t id, hk_rank_t rank);

/* Maps the record of an id, and nothing of those before it: id 0 is no heap's. False when memory is out. */
bool heap_cover(uint32_t id);

/* One more, LIVE; NULL when memory is out. Caller holds the list lock. */
heap_t *heap_make_locked(void);
