/* SPDX-License-Identifier: MIT
 *
 * heap.h: one thread's heap.
 *
 * In front, touched by its thread alone and without synchronisation: a magazine per class, an array of free blocks, by
 * their granules. Behind it, under the heap's lock: the slabs that the heap owns. The pool heap (id 1) has no thread and no
 * magazines; it owns the slabs of threads that are gone until somebody adopts them.
 *
 *   heap states:  UNUSED --heap_start--> LIVE --thread exit--> UNUSED (its slabs go to the pool heap)
 *                 LIVE --thread exit, small--> RESTING --heap_start--> LIVE
 *                 RESTING, UNUSED --helper, trim--> RETIRING --> UNUSED
 *                 LIVE --its thread is gone, and nobody told (unnoticed.h)--> RETIRING --> UNUSED
 *                 LIVE, RETIRING --fork, in the child--> ORPHAN --first refill that adopts--> RETIRING --> UNUSED
 *
 * Who may touch what:
 *   front.*                   the heap's thread, or who retires it; anybody may read it relaxed (statistics, reports)
 *   remote_table, outbox      the heap's thread; anybody may read it (reports)
 *   lists, class_stats, ...   who holds `lock`; counts move to the pool heap under hk_record_lock too
 *   inbox                     any thread pushes; who holds `lock` takes
 *
 * HEAP-1  a block is in exactly one place: with the program, in a magazine, in a remote table, in a message, in free_bits.
 * HEAP-2  an OPEN slab that the heap owns is in exactly one list: partial[class][bin] by its free_count, or full; it is
 *         moved by the free that reaches its settle_at. Empty ones come first in the last bin, and `spares` has the class's bit.
 * HEAP-3  a thread that holds one heap's lock takes no other heap's but the pool heap's.
 */
#ifndef HK_HEAP_H
#define HK_HEAP_H

#include "base/base.h"
#include "base/relaxed.h"
#include "core/lock.h"
#include "large/large.h"
#include "map/map.h"
#include "slab/size_class.h"
#include "slab/slab.h"

#include <stdatomic.h>

enum {
    HEAP_BINS = 4,              /* partial slabs by quarters of free blocks; the fullest are used first */
    HEAP_BIN_EMPTY = HEAP_BINS, /* what an empty slab has for a bin: it is in the last one's list, at its head */
    HEAP_REMOTE_ENTRIES = 256,
    HEAP_OUTBOX = 8,                        /* owners that a thread has a message for */
    HEAP_INBOX_MAX = 256,                   /* messages that wait at a heap, about */
    MESSAGE_WORDS = 63,                     /* of remote frees in a message */
    HEAP_REMOTE_PENDING_BYTES = 256 * 1024, /* of remote frees that a thread holds back */
    HEAP_STRIDE = 24576,
    HEAP_TICK_BYTES = 4 << 20,  /* the countdown's period */
    HEAP_TICK_MID_BYTES = 1024, /* what a block above HK_TINY_MAX counts, so that ticks stay rare whatever the size */
};

enum { HEAP_WORTH_BYTES = 1 << 20 }; /* less than this is not worth a helper thread */

enum { HEAP_UNUSED = 0, HEAP_LIVE, HEAP_ORPHAN, HEAP_RESTING, HEAP_RETIRING };

/* A magazine. The block on top is here and not in the array, so that the malloc after a free finds it with one load; where there is
 * none, it is 0, as is the array's first place, below the first block. Written by its thread, read relaxed. */
typedef struct HK_ALIGNED(32) bin {
    granule_t top;    /* what malloc takes */
    granule_t *below; /* where the next one lies: count - 1 from the array's start; NULL without an array */
    granule_t *last;  /* `below` when the magazine is full */
    uint64_t pushes;  /* blocks that came by frees; allocations follow from the other figures */
} bin_t;

typedef struct heap_front {
    uint32_t tag; /* id << 8 */
    uint32_t id;
    int64_t countdown; /* bytes until the next tick */
    bin_t bins[HK_BIN_COUNT];
} heap_front_t;

/* What only the slow paths need of a class, in one piece: a thread that uses small blocks touches a page less. */
typedef struct heap_class_stats {
    uint64_t seen_pops;    /* at the last tick; the heap's thread */
    uint64_t refilled;     /* blocks put into the magazine from slabs */
    uint64_t flushed;      /* blocks taken out of the magazine to slabs */
    uint64_t freed_remote; /* blocks of other heaps freed by this thread */
    uint64_t kept;         /* ... that went into its magazine; both written by the heap's thread, read by statistics */
    uint32_t refills;
    uint32_t flushes;
    uint32_t slab_count;
    uint8_t events;       /* refills and flushes since the last tick: what magazine growth follows */
    uint8_t idle_ticks;   /* in which nobody allocated */
    uint8_t borrowed;     /* blocks of larger classes handed out in place of the first ones of this class */
    uint8_t still_ticks;  /* ... in which nobody freed either */
    uint32_t rest_blocks; /* into slabs, less what was taken, since the helper looked; never below 0 */
    uint32_t seen;        /* of magazine and flushes at the last tick: what a free changes */
    granule_t *array;     /* of the magazine; read by anybody, relaxed */
    slot_t partial[HEAP_BINS];
} heap_class_stats_t;

typedef struct remote_entry {
    uint64_t key;  /* heap_remote_key; 0: nobody's */
    uint64_t bits; /* 0 when nobody's */
} remote_entry_t;

/* Blocks that came home twice. */
typedef struct doubled {
    uint32_t count;
    uint32_t block_size; /* of the last of them that is known */
    const void *block;   /* NULL: none is known */
} doubled_t;

/* Remote frees on their way to the heap `to`: messages.c. */
typedef struct message {
    struct message *next; /* in the inbox */
    uint32_t to, count;
    remote_entry_t words[MESSAGE_WORDS];
} message_t;

typedef struct heap {
    HK_ALIGNED(HK_CACHE_LINE) hk_lock_t lock;
    _Atomic uint32_t life;   /* HEAP_*; written under the heap-list lock */
    uint32_t next_unused;    /* list of unused or of resting ids, under the heap-list lock; of who retires several */
    _Atomic uint64_t thread; /* whose end nobody tells, 0 when libc does: unnoticed.h */
    slot_t full;
    uint64_t spares[HK_CLASS_COUNT / 64]; /* a bit for each class that may have an empty slab */
    doubled_t doubled;                    /* double frees that a drain came upon, to be reported without the lock */
    _Atomic uint32_t slot_count;          /* slots of its slabs; written under the lock, read without */
    size_t magazine_bytes;                /* what the magazines can hold; the heap's thread */
    uint64_t bins_in_use[3];              /* a bit for each magazine that has a capacity; the heap's thread */
    size_t run_bytes;                     /* flushed since the thread last allocated; the heap's thread */
    size_t run_total;                     /* the same, and what left the other magazines then; the heap's thread */
    int64_t run_countdown;                /* the countdown when run_bytes was last written; the heap's thread */
    uint64_t lock_takes;
    uint64_t idle_takes; /* lock_takes when it was last seen to change, and when that was: adoption */
    uint32_t idle_since_ms;
    uint64_t ended_since_ms;    /* of one without a thread, as the next; written by who puts it on a list */
    size_t ended_with_bytes;    /* what it may hold; under the heap-list lock */
    uint64_t seen_takes;        /* lock_takes at the last maintenance round: equal means idle */
    _Atomic size_t freed_bytes; /* the sum of the classes' rest_blocks, in bytes; also read without the lock */
    size_t
        posted_bytes; /* thread's own, the pool's under the lock: remote frees since the helper was called for them */
    uint32_t remote_pending_bytes; /* thread's own */
    uint32_t remote_batches;       /* thread's own: posted, not yet in the counter that all threads share */
    uint64_t remote_used[HEAP_REMOTE_ENTRIES / 64]; /* thread's own: entries that may be somebody's */
    message_t *outbox[HEAP_OUTBOX];                 /* as remote_table: messages being filled, by owner */
    struct hardened_queue *queue;                   /* thread's own: hardened.c */

    HK_ALIGNED(HK_CACHE_LINE) _Atomic(message_t *) inbox;
    _Atomic uint32_t inbox_count; /* about so many messages are in it: a bound for senders */
    message_t *opened; /* taken from the inbox and gone through at this moment, under the lock: for reports */

    HK_ALIGNED(HK_CACHE_LINE) large_cache_t large;

    HK_ALIGNED(HK_CACHE_LINE) heap_front_t front;
    /* From the first whole page of magazines on all is 0 while the heap is nobody's, and given back: record.c. */
    heap_class_stats_t class_stats[HK_BIN_COUNT];
    remote_entry_t remote_table[HEAP_REMOTE_ENTRIES];
} heap_t;

_Static_assert(sizeof(heap_t) <= HEAP_STRIDE, "heaps lie HEAP_STRIDE apart");

/* The front of a thread without a heap: every malloc and free on it takes the slow path. Any such thread writes its countdown, in which
 * nobody is interested. */
extern heap_front_t hk_no_heap;

extern _Thread_local heap_front_t *hk_front __attribute__((tls_model("initial-exec"), visibility("hidden")));

HK_INLINE heap_t *heap_by_id(uint32_t id) {
    return (heap_t *)(hk_window.areas[REGION_AREA_HEAPS] + (size_t)id * HEAP_STRIDE);
}

/* Blocks in a magazine. The heap's thread; another one holds the lock, under which arrays change. Acquire: pairs with the release in
 * bin_push, so that who counts first and reads the pushes then never misses one. */
HK_INLINE uint64_t heap_bin_count(const heap_t *h, unsigned cls) {
    const granule_t *below = hk_read_acquire(h->front.bins[cls].below);
    return below == NULL ? 0 : (uint64_t)(below - h->class_stats[cls].array + 1);
}

HK_INLINE unsigned heap_bin_capacity(const heap_t *h, unsigned cls) {
    const granule_t *last = h->front.bins[cls].last;
    return last == NULL ? 0 : (unsigned)(last - h->class_stats[cls].array + 1);
}

/* Blocks of the class allocated by this heap: what came in by refills and frees and is neither there, `count` blocks that were counted
 * before this call, nor flushed. Exact for the heap's thread; another one holds the lock, and may count frees of this moment as
 * allocations too. */
HK_INLINE uint64_t heap_pops(const heap_t *h, unsigned cls, uint64_t count) {
    const heap_class_stats_t *stats = &h->class_stats[cls];
    return hk_read(h->front.bins[cls].pushes) + stats->refilled - stats->flushed - count;
}

/* Puts a block on top; the magazine has room. The child of a fork may lose a block, and never has one twice: what counts is `below`. What
 * was read is written, not added to in place: the next malloc of the class waits for these stores. */
HK_INLINE void bin_push(bin_t *bin, granule_t granule) {
    granule_t *below = bin->below;
    hk_write(below[1], hk_read_in_place(bin->top));
    hk_write(bin->top, granule);
    hk_add_in_place(bin->pushes, 1);
    /* Release: pairs with the acquire in heap_bin_count and is_in_magazine; and for the child of a fork. */
    hk_write_release(bin->below, below + 1);
}

HK_INLINE heap_t *heap_of_front(heap_front_t *front) { return (heap_t *)((char *)front - offsetof(heap_t, front)); }

HK_INLINE heap_t *heap_pool(void) { return heap_by_id(HK_OWNER_POOL); }

/* --- Life: life.c ------------------------------------------------------------------------------------------------- */

/* The calling thread's heap, started if need be; NULL when the thread is over or memory is out: use the pool heap. NULL also in a
 * stranded process (heap/fork.h), where the pool heap is of no use either. */
heap_t *heap_current(void);

/* One past the highest id in use. */
uint32_t heap_limit(void);

/* Threads that have one, about. */
uint32_t heap_thread_count(void);

/* True when so many threads have a heap that what each keeps in its magazines adds up, or when a limit is near. */
bool heap_is_crowded(void);

/* True when there are so many that most of them must be asleep: then what is kept counts more than a lock that nobody else wants. */
bool heap_is_throng(void);

/* --- Slabs behind the magazines: lists.c (caller holds h->lock) ------------------------------------------------------ */

/* Fills end[-1], end[-2], ... with up to `want` blocks; fewer when that saves opening a slab; 0 when memory is out. */
unsigned heap_take_locked(heap_t *h, unsigned cls, granule_t *end, unsigned want);

/* One block for the program, past the magazine; counted as one that went through it. Takes the lock. */
void *heap_take_one(heap_t *h, unsigned cls, block_past_t *past);

/* One block for the program, past the magazine, from a slab that the heap has already. Opens and adopts none. Takes the lock. */
void *heap_take_one_there(heap_t *h, unsigned cls);

/* The heap's thread frees a block of a slab of class `cls` that no thread owns: it takes the slab, so that this free and those that
 * follow are its own. False when somebody else was faster. Takes the locks. */
bool heap_adopt_freed_slab(heap_t *h, slab_t *slab, unsigned cls);

/* Puts the slab into the list where its free_count belongs, or closes it when it is empty and not needed. */
void heap_settle_locked(heap_t *h, slab_t *slab);

void heap_insert_locked(heap_t *h, slab_t *slab);
void heap_remove_locked(heap_t *h, slab_t *slab);

/* Closes empty slabs that were kept for reuse. */
void heap_retire_spares_locked(heap_t *h);

/* Moves every slab to the pool heap, closing the empty ones. Caller also holds no other lock. */
void heap_hand_over_locked(heap_t *h);

/* --- Remote frees: remote.c ------------------------------------------------------------------------------------------ */

/* Posts what entry `at` of the remote table holds and gives it to the word `key`. */
void heap_remote_claim(heap_t *h, unsigned at, uint64_t key);

/* Gives the word's blocks to their slab under its owner's lock. Returns those that are free already, or of no slab
 * any more: double frees. Any thread; the caller holds no heap's lock. */
uint64_t heap_remote_give(const remote_entry_t *word);

/* Posts everything in the remote table. The heap's thread, or anybody once the thread is gone. */
void heap_remote_post_all(heap_t *h);

/* Collects what others freed of this heap's slabs. Caller holds the heap's lock, as for the next. */
void heap_drain_locked(heap_t *h);

/* Gives the word's blocks to their slab, which is the heap's. Returns those that are free already, or that the slab
 * does not have. */
uint64_t heap_remote_give_locked(heap_t *h, const remote_entry_t *word);

/* The heap that owns the word's slab; HK_OWNER_NONE when the slab is gone, as it may be after a double free. */
uint32_t heap_remote_owner(const remote_entry_t *word);

/* --- Magazines: magazine.c (the heap's thread) ------------------------------------------------------------------------ */

/* A block of the class: from the magazine, filled if need be. NULL when memory is out. */
void *magazine_alloc(heap_t *h, unsigned cls);

/* Large classes: the run on top of the magazine, or NULL; and whether the magazine took a run (its thread uses the class
 * again and again), which is then tagged. */
void *magazine_take_large(heap_t *h, unsigned cls);
bool magazine_wants_large(heap_t *h, unsigned cls);

/* Puts a block into its magazine, making room if need be. `h` is NULL in a stranded process (heap/fork.h). */
void magazine_free(heap_t *h, unsigned cls, void *block);

/* Bytes that the magazines of a heap may be able to hold, in which `owned` bytes of slots are, of `in_use` in all heaps of so many threads:
 * every block in one keeps a slab from emptying, and what each thread keeps adds up. The more threads, the smaller is the part. */
typedef enum heap_press { HEAP_ROOM, HEAP_CROWD, HEAP_THRONG } heap_press_t;
size_t magazine_budget(size_t owned, size_t in_use, size_t threads, heap_press_t press);

/* Gives one block straight back to its slab, whosever it is. */
void magazine_give_one(heap_t *h, unsigned cls, void *block);

/* Empties all magazines and returns their arrays. The heap's thread, or anybody once the thread is gone. Takes the lock. */
void magazine_drop_all(heap_t *h);

/* The same for runs alone. */
void magazine_drop_large(heap_t *h);

/* Empties all magazines of a thread that is over. Small arrays stay for the thread that uses the heap next: threads that
 * come and go are mostly alike. As above. */
void magazine_retire_all(heap_t *h);

/* In the child of a fork, before the heap of a thread that does not exist there is emptied: it may have been between two steps. */
void magazine_mend(heap_t *h);

/* Lets capacities follow the load since the last tick. */
void magazine_tick(heap_t *h);

/* Whether the block lies in free bits, in a magazine or in a remote table of any heap. For reports: looks at all heaps, twice
 * before it says yes. Takes no lock. */
bool heap_block_is_free(const void *block, unsigned cls);

/* --- Ticks, helper, trim: maintain.c ------------------------------------------------------------------------------------ */

/* The countdown ran out: everything periodic of this heap. */
void heap_tick(heap_t *h);

/* Called after memory became free in `h` (NULL: somewhere): starts the helper when there is something worth giving back. */
void heap_memory_freed(const heap_t *h);
void heap_memory_freed_much(void); /* the same when the caller knows that it is much */

/* Gives back all that can be given back. Returns the bytes. */
size_t heap_trim_all(void);

/* The same but for what the calling thread's own magazines hold: uses neither libc nor thread-local storage. */
size_t heap_relieve(void);

void heap_maintain_init(void);

/* The helper leaves, and none starts until after the fork; signals are held back so long. True when no thread of ours is left. */
bool heap_maintain_before_fork(void);

/* Gives freed memory back where a helper would have. No lock is held. */
void heap_maintain_alone_before_fork(void);

void heap_maintain_after_fork(bool in_child, bool alone);

/* In a child that was made without fork handlers. */
void heap_maintain_after_unseen_fork(void);

/* Between heap_maintain_before_fork and heap_maintain_after_fork, for the thread that forks. */
bool heap_maintain_is_forking(void);

/* Threads of ours in this process, and whether one of them may hold a lock. */
unsigned heap_maintain_threads(void);
bool heap_maintain_is_at_work(void);

/* A thread of ours begins (1) or ends (-1) to do what takes locks. */
void heap_maintain_work(int by);

/* The word that block `index` of the slab at `base` has its bit in. */
HK_INLINE uint64_t heap_remote_key(const void *base, unsigned index) { return (uintptr_t)base | index / 64; }

/* The word and the bit of a block of the class. */
HK_INLINE remote_entry_t heap_remote_word(const void *block, unsigned cls) {
    unsigned index = class_block_index(&hk_classes[cls], block);
    return (remote_entry_t){heap_remote_key(slab_base(slab_of(block, cls)), index), UINT64_C(1) << (index % 64)};
}

/* The slab that an entry with bits is of. */
HK_INLINE slab_t *heap_remote_slab(const remote_entry_t *entry) {
    return slab_at((slot_t)map_slot((const void *)(uintptr_t)entry->key));
}

/* The first block of the class that `bits` has of the word. */
HK_INLINE void *heap_remote_block(const remote_entry_t *word, unsigned cls, uint64_t bits) {
    size_t index = (word->key & 63) * 64 + hk_ctz64(bits);
    return slab_base(heap_remote_slab(word)) + index * hk_class_info[cls].block_size;
}

/* The only entry that may be the key's. */
HK_INLINE remote_entry_t *heap_remote_entry(heap_t *h, uint64_t key) {
    _Static_assert(HEAP_REMOTE_ENTRIES == 256, "the hash keeps 8 bits");
    return &h->remote_table[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
}

/* Notes the block as heap_remote_note does, but only where the entry is its word's already. False also when it was noted. */
HK_INLINE bool heap_remote_note_in_place(heap_t *h, const void *base, unsigned cls, unsigned index) {
    uint64_t key = heap_remote_key(base, index), bit = UINT64_C(1) << (index % 64);
    remote_entry_t *entry = heap_remote_entry(h, key);
    if (hk_unlikely(entry->key != key || (entry->bits & bit) != 0))
        return false;
    entry->bits |= bit;
    h->remote_pending_bytes += hk_class_info[cls].block_size;
    return true;
}

/* Notes that block `index` of the slab at `base`, of class `cls` and of another heap, goes back to it. False: it was
 * noted already (double free). The thread's own heap only. */
HK_INLINE bool heap_remote_note(heap_t *h, const void *base, unsigned cls, unsigned index) {
    uint64_t key = heap_remote_key(base, index);
    remote_entry_t *entry = heap_remote_entry(h, key);
    if (entry->key != key)
        heap_remote_claim(h, (unsigned)(entry - h->remote_table), key);
    return heap_remote_note_in_place(h, base, cls, index);
}

HK_INLINE void heap_remote_post_much(heap_t *h) {
    if (hk_unlikely(h->remote_pending_bytes > HEAP_REMOTE_PENDING_BYTES))
        heap_remote_post_all(h);
}

/* Since the helper was last called for what went to other heaps. */
HK_INLINE bool heap_posted_much(heap_t *h) {
    bool much = h->posted_bytes >= HEAP_WORTH_BYTES;
    h->posted_bytes = much ? 0 : h->posted_bytes;
    return much;
}

/* The same for a block that this thread frees. */
HK_INLINE bool heap_remote_add(heap_t *h, const void *base, unsigned cls, unsigned index) {
    if (hk_unlikely(!heap_remote_note(h, base, cls, index)))
        return false;
    hk_add(h->class_stats[cls].freed_remote, 1);
    heap_remote_post_much(h);
    return true;
}

HK_INLINE void heap_lock(heap_t *h) {
    hk_lock(&h->lock);
    h->lock_takes++;
}

HK_INLINE void heap_unlock(heap_t *h) { hk_unlock(&h->lock); }

/* Blocks that went from magazines or other threads to the slabs, and back. Caller holds the lock. */
HK_INLINE void heap_count_freed_locked(heap_t *h, unsigned cls, uint32_t blocks) {
    size_t bytes = atomic_load_explicit(&h->freed_bytes, memory_order_relaxed);
    h->class_stats[cls].rest_blocks += blocks;
    bytes += blocks * (size_t)hk_class_info[cls].block_size;
    atomic_store_explicit(&h->freed_bytes, bytes, memory_order_relaxed);
}

HK_INLINE void heap_count_taken_locked(heap_t *h, unsigned cls, uint32_t blocks) {
    size_t bytes = atomic_load_explicit(&h->freed_bytes, memory_order_relaxed);
    uint32_t rest = h->class_stats[cls].rest_blocks;
    blocks = blocks < rest ? blocks : rest;
    h->class_stats[cls].rest_blocks = rest - blocks;
    bytes -= blocks * (size_t)hk_class_info[cls].block_size;
    atomic_store_explicit(&h->freed_bytes, bytes, memory_order_relaxed);
}

HK_INLINE size_t heap_freed_bytes(const heap_t *h) {
    return atomic_load_explicit(&h->freed_bytes, memory_order_relaxed);
}

#endif
