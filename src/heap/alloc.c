/* SPDX-License-Identifier: MIT */
#include "heap/alloc.h"

#include "core/counters.h"
#include "core/options.h"
#include "heap/emergency.h"
#include "heap/fork.h"
#include "heap/hardened.h"
#include "heap/life.h"
#include "heap/limit.h"
#include "heap/misuse.h"
#include "large/huge.h"
#include "superslab/superslab.h"
#include "sys/libc_doors.h"
#include "sys/sys.h"
#include "watch/foreign.h"

#include <errno.h>
#include <string.h>

/* User address space that a process gets unasked, x86-64 and aarch64: more is refused at once, and nothing is trimmed for it. */
#define SIZE_POSSIBLE ((size_t)1 << 48)

enum {
    CALLOC_DIRECT_MIN = 8 * 1024, /* from here on it pays to know that a block reads as zeros */
    KEEP_CLASS_MIN = 3,           /* 64 bytes, a cache line */
    BORROW_MAX = 12,              /* blocks a class borrows from larger ones before it gets its own slab */
    BORROW_SHARE = 3,             /* ... which are larger by this part at the most; as heap_block_stays allows */
    RECLAIM_TRIES = 8,            /* out of memory is the answer when so many attempts found nothing */
};

/* Once a block is larger than the program asked for since memory was out when it was allocated or had to shrink. */
static _Atomic bool kept_whole;

static void *fail(void) {
    errno = ENOMEM;
    return NULL;
}

/* --- Allocation ------------------------------------------------------------------------------------------------------ */

/* For threads that have no heap (any more): a block of the pool heap, under its lock. */
static void *pool_alloc(unsigned cls) {
    if (!heap_system_ready())
        return NULL;
    block_past_t past;
    return heap_take_one(heap_pool(), cls, &past);
}

/* Out of memory: gives back what can be given and waits for what a purge holds; true when it is worth to try again. The
 * first time it always is: a purge may have ended since the attempt that failed. */
static HK_COLD bool reclaim(unsigned tries) {
    bool waited = superslab_wait_purge();
    bool came_back = heap_trim_all() > 0;
    return tries == 0 || ((came_back || waited) && tries < RECLAIM_TRIES);
}

void *heap_take_one_or_reclaim(heap_t *h, unsigned cls, block_past_t *past) {
    void *block = heap_take_one(h, cls, past);
    for (unsigned tries = 0; hk_unlikely(block == NULL) && reclaim(tries); tries++)
        block = heap_take_one(h, cls, past);
    return block;
}

static void *class_try(heap_t *h, unsigned cls) { return h != NULL ? magazine_alloc(h, cls) : pool_alloc(cls); }

/* The first few blocks of a class come from the magazine of a slightly larger one that has some: a program that uses many
 * sizes a few times each then needs neither a slab nor a page for every size. Near a limit of the kernel's, all of them do, as long as the
 * class has no slab. */
static void *borrow(heap_t *h, unsigned cls) {
    heap_class_stats_t *stats = &h->class_stats[cls];
    bool always = hk_unlikely(region_is_near_limit()) && hk_read(stats->slab_count) == 0;
    if (hk_likely(!always) && (hk_likely(stats->refills > 0) || stats->borrowed >= BORROW_MAX))
        return NULL;
    stats->borrowed++;
    uint32_t most = hk_class_info[cls].block_size + hk_class_info[cls].block_size / BORROW_SHARE;
    for (unsigned c = cls + 1; c < HK_CLASS_COUNT && hk_class_info[c].block_size <= most; c++)
        if (heap_bin_count(h, c) > 0 || (always && hk_read(h->class_stats[c].slab_count) > 0))
            return magazine_alloc(h, c);
    return NULL;
}

/* Large classes whose thread uses them again and again go through a magazine; their runs are tagged. */
static void *large_class_alloc(heap_t *h, size_t size) {
    if (h == NULL || size > HK_BIN_MAX)
        return NULL;
    unsigned cls = class_of(size);
    if (h->front.countdown < 0)
        heap_tick(h);
    void *block = magazine_take_large(h, cls);
    if (block != NULL || !magazine_wants_large(h, cls))
        return block;
    size_t run_size = (size_t)hk_class_info[cls].slab_slots << HK_SLOT_SHIFT;
    block = limit_allows(run_size) ? large_alloc(&h->large, run_size, 1, NULL) : NULL;
    if (block == NULL)
        return NULL;
    large_tag(block, h->front.id, cls);
    map_reset_live((slot_t)map_slot(block), 1);
    map_set_live_shared(map_granule(block));
    heap_lock(h);
    h->class_stats[cls].refilled++;
    heap_unlock(h);
    return block;
}

/* The run leaves the magazines' way, for good; `entry` is its head's. */
static void untag(heap_t *h, void *block, uint32_t entry) {
    if (entry == HK_MAP_RUN_HEAD)
        return;
    large_tag(block, HK_OWNER_NONE, 0);
    (void)map_clear_live_shared(map_granule(block));
    heap_t *counts = h != NULL ? h : heap_pool();
    heap_lock(counts);
    hk_add(counts->class_stats[entry & HK_MAP_CLASS_MAX].freed_remote, 1);
    heap_unlock(counts);
}

static void *big_try(heap_t *h, size_t size, size_t align, bool *zeroed) {
    void *block = NULL;
    if (!limit_allows(size))
        return NULL;
    if (size <= HK_LARGE_MAX && align <= HK_LARGE_MAX)
        block = large_alloc(h != NULL ? &h->large : &heap_pool()->large, size, align, zeroed);
    if (block != NULL)
        return block;
    if (zeroed != NULL)
        *zeroed = true;
    return huge_alloc(size, align);
}

/* Memory is out though some lies free in pieces: without them, the block may get a mapping of its own. */
static HK_COLD void *big_last_try(heap_t *h, size_t size, size_t align, bool *zeroed) {
    return superslab_drop_free() > 0 ? big_try(h, size, align, zeroed) : NULL;
}

/* Memory is out for a slab of the class. */
static void *take_of_class(heap_t *h, unsigned cls) {
    void *block = h != NULL && heap_bin_count(h, cls) > 0 ? magazine_alloc(h, cls) : NULL;
    for (uint32_t id = HK_OWNER_POOL; block == NULL && id < heap_limit(); id++) {
        heap_t *other = heap_by_id(id);
        if (hk_read(other->class_stats[cls].slab_count) > 0)
            block = heap_take_one_there(other, cls);
    }
    return block;
}

/* The last way out when there is no room for a slab: one large block in place of a slab for several, then a block of the class or of a
 * larger one, whatever heap has it. */
static HK_COLD void *take_anywhere(heap_t *h, unsigned cls, size_t align) {
    if (!heap_system_has_started())
        return NULL;
    size_t size = hk_class_info[cls].block_size;
    void *block = hk_class_info[cls].slab_slots > 1 ? big_try(h, size, align, NULL) : NULL;
    if (block == NULL && hk_class_info[cls].slab_slots > 1)
        block = big_last_try(h, size, align, NULL);
    for (unsigned c = cls; block == NULL && c < HK_CLASS_COUNT; c++)
        if (hk_class_info[c].block_size % align == 0)
            block = take_of_class(h, c);
    if (block != NULL)
        atomic_store_explicit(&kept_whole, true, memory_order_relaxed);
    return block;
}

/* Near a limit of the kernel's, a block alone in place of the first slab for several. */
static HK_COLD void *alone_try(heap_t *h, unsigned cls, size_t align) {
    if (hk_class_info[cls].slab_slots == 1 || h == NULL || hk_read(h->class_stats[cls].slab_count) > 0 ||
        heap_bin_count(h, cls) > 0)
        return NULL;
    void *block = big_try(h, hk_class_info[cls].block_size, align, NULL);
    if (block != NULL)
        atomic_store_explicit(&kept_whole, true, memory_order_relaxed);
    return block;
}

static void *class_alloc(heap_t *h, unsigned cls, size_t align) {
    if (h != NULL && h->front.countdown < 0)
        heap_tick(h);
    void *block = hk_unlikely(region_is_near_limit()) ? alone_try(h, cls, align) : NULL;
    if (hk_likely(block == NULL))
        block = class_try(h, cls);
    for (unsigned tries = 0; hk_unlikely(block == NULL) && reclaim(tries); tries++)
        block = class_try(h, cls);
    return hk_likely(block != NULL) ? block : take_anywhere(h, cls, align);
}

void *heap_big_alloc(heap_t *h, size_t size, size_t align, bool *zeroed) {
    if (size > SIZE_POSSIBLE || (h == NULL && !heap_system_ready()))
        return NULL;
    size = hk_max(size, 1);
    void *block = big_try(h, size, align, zeroed);
    for (unsigned tries = 0; hk_unlikely(block == NULL) && reclaim(tries); tries++)
        block = big_try(h, size, align, zeroed);
    return hk_likely(block != NULL) ? block : big_last_try(h, size, align, zeroed);
}

/* In a stranded process. */
static HK_COLD void *alloc_stranded(size_t size, size_t align) {
    void *block = emergency_alloc(size, align);
    return block != NULL ? block : fail();
}

void *heap_malloc_slow(size_t size) {
    heap_t *h = heap_current();
    if (hk_unlikely(h == NULL) && !fork_attend())
        return alloc_stranded(size, HK_ALIGNMENT);
    if (hk_unlikely(hardened_is_on()))
        return hardened_alloc(h, HK_ALIGNMENT, size, false);
    if (size > HK_MID_MAX) {
        void *big = large_class_alloc(h, size);
        if (big == NULL)
            big = heap_big_alloc(h, size, 1, NULL);
        return hk_likely(big != NULL) ? big : fail();
    }
    unsigned cls = class_of(size + (size == 0));
    void *block = h != NULL ? borrow(h, cls) : NULL;
    if (block == NULL)
        block = class_alloc(h, cls, HK_ALIGNMENT);
    return hk_likely(block != NULL) ? block : fail();
}

void *heap_aligned(size_t align, size_t size) {
    if (align <= HK_ALIGNMENT)
        return heap_malloc_slow(size);
    heap_t *h = heap_current();
    if (hk_unlikely(h == NULL) && !fork_attend())
        return alloc_stranded(size, align);
    if (hk_unlikely(hardened_is_on()))
        return hardened_alloc(h, align, size, false);
    if (h == NULL && !heap_system_ready())
        return fail();
    unsigned cls = class_of_aligned(size, align);
    void *block = cls < HK_CLASS_COUNT ? class_alloc(h, cls, align) : heap_big_alloc(h, size, align, NULL);
    return block != NULL ? block : fail();
}

void *heap_aligned_slow(size_t size) { return heap_aligned(size & -size, size); }

/* A block straight from a slab, which knows whether it reads as zeros; only when the magazine has none at hand. */
static void *direct_alloc(heap_t *h, unsigned cls, bool *zeroed) {
    *zeroed = false;
    if (heap_bin_count(h, cls) > 0)
        return magazine_alloc(h, cls);
    block_past_t past = BLOCK_USED;
    void *block = heap_take_one_or_reclaim(h, cls, &past);
    if (hk_unlikely(block == NULL))
        return take_anywhere(h, cls, HK_ALIGNMENT);
    *zeroed = past == BLOCK_ZEROED;
    return block;
}

void *heap_calloc_slow(size_t size) {
    heap_t *h = heap_current();
    if (hk_unlikely(h == NULL) && !fork_attend()) {
        void *stranded = alloc_stranded(size, HK_ALIGNMENT);
        return stranded != NULL ? memset(stranded, 0, size) : NULL;
    }
    if (hk_unlikely(hardened_is_on()))
        return hardened_alloc(h, HK_ALIGNMENT, size, true);
    if (h != NULL && h->front.countdown < 0)
        heap_tick(h);
    bool zeroed = false;
    void *block;
    if (size > HK_MID_MAX) {
        block = h != NULL && size <= HK_BIN_MAX ? magazine_take_large(h, class_of(size)) : NULL;
        if (block == NULL)
            block = heap_big_alloc(h, size, 1, &zeroed);
    } else if (size < CALLOC_DIRECT_MIN || h == NULL)
        block = class_alloc(h, class_of(size + (size == 0)), HK_ALIGNMENT);
    else
        block = direct_alloc(h, class_of(size), &zeroed);
    if (block == NULL)
        return fail();
    return zeroed ? block : memset(block, 0, size);
}

/* --- Free -------------------------------------------------------------------------------------------------------------- */

void heap_free_full(void *block, uint32_t cls) {
    heap_t *h = heap_current();
    if (hk_unlikely(hardened_is_on()))
        hardened_free(h, block, cls, __builtin_return_address(0));
    else
        magazine_free(h, cls, block);
}

static void *block_start(const void *address, unsigned cls) {
    if (cls >= HK_CLASS_COUNT)
        return large_start(address);
    const slab_t *slab = slab_of(address, cls);
    unsigned index = class_block_index(&hk_classes[cls], address);
    return slab_base(slab) + (size_t)index * hk_class_info[cls].block_size;
}

/* True when `block`, in a slab or run of the class, starts a block and is not free; reports otherwise. */
static bool slab_block_is_good(const char *verb, void *block, unsigned cls, const void *caller) {
    size_t size = hk_class_info[cls].block_size;
    if (!class_is_block(&hk_classes[cls], block)) {
        misuse_interior(verb, block, block_start(block, cls), size, caller);
        return false;
    }
    if (!map_is_live(map_granule(block)) && misuse_is_watched() && heap_block_is_free(block, cls)) {
        misuse_double_free(verb, block, size, caller);
        return false;
    }
    return true;
}

void heap_free_suspect(void *block, uint32_t cls) {
    if (slab_block_is_good("free", block, cls, __builtin_return_address(0)))
        magazine_free(heap_current(), cls, block);
}

/* What another heap's thread may keep instead of giving it back: its own next block, if it has allocated of the
 * class since the last tick. Smaller ones would let two threads write to one line. */
HK_INLINE bool may_keep(const heap_t *h, uint32_t cls) {
    return cls >= KEEP_CLASS_MIN && h->front.bins[cls].below != NULL &&
           heap_pops(h, cls, heap_bin_count(h, cls)) != h->class_stats[cls].seen_pops;
}

static HK_NOINLINE void keep_where_full(heap_t *h, uint32_t cls, void *block) {
    magazine_free(h, cls, block);
    hk_add(h->class_stats[cls].freed_remote, 1);
    hk_add(h->class_stats[cls].kept, 1);
}

static HK_NOINLINE void keep_foreign(heap_t *h, uint32_t cls, granule_t granule) {
    bin_t *bin = &h->front.bins[cls];
    if (hk_unlikely(bin->below == bin->last)) {
        keep_where_full(h, cls, map_granule_address(granule));
        return;
    }
    bin_push(bin, granule);
    hk_add_in_place(h->class_stats[cls].freed_remote, 1);
    hk_add_in_place(h->class_stats[cls].kept, 1);
}

/* Into the table where another word has the place, or reports. */
static HK_NOINLINE void return_displacing(heap_t *h, void *block, uint32_t cls, const void *caller) {
    if (!heap_remote_add(h, slab_base(slab_of(block, cls)), cls, class_block_index(&hk_classes[cls], block)))
        misuse_double_free("free", block, hk_class_info[cls].block_size, caller);
}

HK_INLINE void return_foreign(heap_t *h, void *block, uint32_t cls, const void *caller) {
    const size_class_t *c = &hk_classes[cls];
    uint32_t offset = class_slab_offset(c, block);
    if (hk_unlikely(!heap_remote_note_in_place(h, (char *)block - offset, cls, class_index_at(c, offset)))) {
        return_displacing(h, block, cls, caller);
        return;
    }
    hk_add_in_place(h->class_stats[cls].freed_remote, 1);
    heap_remote_post_much(h);
}

HK_INLINE void pass_foreign(heap_t *h, void *block, uint32_t cls, granule_t granule, const void *caller) {
    if (may_keep(h, cls))
        keep_foreign(h, cls, granule);
    else
        return_foreign(h, block, cls, caller);
}

/* For threads that have no heap (any more). */
static HK_COLD void return_without_heap(void *block, uint32_t cls, const void *caller) {
    const remote_entry_t word = heap_remote_word(block, cls);
    uint64_t doubled = heap_remote_give(&word);
    hk_count(remote_batches);
    heap_t *pool = heap_pool();
    heap_lock(pool);
    hk_add(pool->class_stats[cls].freed_remote, 1);
    heap_unlock(pool);
    if (hk_unlikely(doubled != 0))
        misuse_double_free("free", block, hk_class_info[cls].block_size, caller);
}

/* A thread that only frees would hoard what others could use. */
static bool adopts(heap_t *h, void *block, uint32_t cls) {
    return h->class_stats[cls].refills > 0 && map_lookup(block) >> 8 == HK_OWNER_POOL &&
           heap_adopt_freed_slab(h, slab_of(block, cls), cls);
}

/* A block of another heap, or of none. */
static void free_remote(void *block, unsigned cls, const void *caller) {
    if (!slab_block_is_good("free", block, cls, caller))
        return;
    bool was_live = map_clear_live_shared(map_granule(block));
    heap_t *h = heap_current();
    if (hk_unlikely(hardened_is_on()) && !was_live) /* another thread frees it at this moment */
        misuse_double_free("free", block, hk_class_info[cls].block_size, caller);
    else if (hk_unlikely(hardened_is_on()))
        hardened_free(h, block, cls, caller);
    else if (h == NULL)
        return_without_heap(block, cls, caller);
    else if (adopts(h, block, cls))
        magazine_free(h, cls, block);
    else
        pass_foreign(h, block, cls, map_granule(block), caller);
}

static void free_large(void *block, const void *caller) {
    heap_t *h = heap_current();
    large_cache_t *cache = h != NULL ? &h->large : &heap_pool()->large;
    size_t size = large_size(block);
    if ((uintptr_t)block % HK_SLOT_SIZE != 0) {
        void *start = large_start(block);
        misuse_interior("free", block, start, large_size(start), caller);
        return;
    }
    uint32_t entry = map_lookup(block);
    bool in_magazine = entry != HK_MAP_RUN_HEAD && !slab_block_is_good("free", block, entry & HK_MAP_CLASS_MAX, caller);
    if (in_magazine)
        return;
    if (hk_unlikely(hardened_is_on())) {
        hardened_free_large(h, block, caller);
        return;
    }
    untag(h, block, entry);
    if (!large_free(cache, block)) {
        misuse_double_free("free", block, size, caller);
        return;
    }
    if (hk_unlikely(limit_is_near()))
        (void)large_cache_trim(cache, 0, 0);
    heap_memory_freed_much();
}

/* Memory of the C library's own allocator goes to it; anything else is a mistake. Where the mappings cannot be read (a confined
 * process, no /proc) and it has handed memory out, the C library is the judge. `errno` is kept. */
static bool is_libc_memory(const void *block, libc_allocator_t *libc) {
    foreign_t where;
    foreign_classify(block, &where);
    if (where.kind != FOREIGN_BRK && where.kind != FOREIGN_ANONYMOUS && where.kind != FOREIGN_UNKNOWN)
        return false;
    libc_allocator_find(libc);
    return libc->free != NULL && libc->holds_memory && (uintptr_t)block % HK_ALIGNMENT == 0;
}

static HK_COLD void free_foreign(void *block, const void *caller) {
    int saved = errno;
    libc_allocator_t libc;
    if (is_libc_memory(block, &libc)) {
        hk_count(foreign_forwards);
        libc.free(block);
    } else {
        misuse_foreign("free", block, caller);
    }
    errno = saved;
}

static void free_outside_window(void *block, const void *caller) {
    void *start;
    size_t size;
    if (hk_unlikely(hardened_is_on()) && !hardened_huge_is_whole(block, caller))
        return;
    if (huge_free(block))
        return;
    if (huge_find(block, &start, &size))
        misuse_interior("free", block, start, size, caller);
    else if (huge_was_freed(block, &size))
        misuse_double_free("free", block, size, caller);
    else
        free_foreign(block, caller);
}

/* Of a stranded process, or of one that was. What is not of the emergency pool is lost. */
static HK_COLD void free_stranded(void *block) {
    if (emergency_size(block) != 0)
        emergency_free(block);
}

static HK_NOINLINE void free_other(void *block, const void *caller) {
    if (block == NULL)
        return;
    if (hk_unlikely(!fork_attend()) || hk_unlikely(emergency_size(block) != 0)) {
        free_stranded(block);
        return;
    }
    uint32_t entry = map_lookup(block);
    if (entry == HK_MAP_RUN_BODY) {
        void *start = large_start(block);
        misuse_interior("free", block, start, large_size(start), caller);
    } else if (map_is_run(entry)) {
        free_large(block, caller);
    } else if (entry != 0) {
        free_remote(block, entry & HK_MAP_CLASS_MAX, caller);
    } else if (map_slot(block) < map_count()) {
        misuse_no_block("free", block, caller);
    } else {
        free_outside_window(block, caller);
    }
}

/* From this class on, blocks have a byte of live bits each. */
enum { APART_CLASS_MIN = HK_LIVE_SHARE / HK_ALIGNMENT - 1 };

HK_INLINE bool clear_foreign(granule_t granule, uint32_t cls) {
    return cls < APART_CLASS_MIN ? map_clear_live_shared(granule) : map_clear_live_apart(granule);
}

/* From each tick on, blocks of others go home until their class is allocated of, and what waits for others is sent. */
static HK_NOINLINE void pass_foreign_and_tick(void *block, uint32_t cls, granule_t granule, const void *caller) {
    heap_t *h = heap_of_front(hk_front);
    heap_tick(h);
    pass_foreign(h, block, cls, granule, caller);
}

/* The common case first, without a call: a live block of a slab that another thread's heap owns. A set live bit says that it
 * is one. Without a heap, and with a hardened one, the tag is none; outside the window `mismatch` makes no owner. */
void heap_free_other(void *block, uint32_t mismatch, heap_front_t *front, granule_t granule) {
    uint32_t tag = front->tag, entry = mismatch ^ tag, cls = entry & HK_MAP_CLASS_MAX;
    if (hk_unlikely(tag == HK_MAP_NO_TAG || map_is_run(entry) || entry < map_tag(HK_OWNER_FIRST) ||
                    !clear_foreign(granule, cls)))
        free_other(block, __builtin_return_address(0));
    else if (hk_unlikely(front->countdown < 0))
        pass_foreign_and_tick(block, cls, granule, __builtin_return_address(0));
    else
        pass_foreign(heap_of_front(front), block, cls, granule, __builtin_return_address(0));
}

/* --- Size of a block ---------------------------------------------------------------------------------------------------- */

typedef enum kind { KIND_NONE, KIND_SLAB, KIND_LARGE, KIND_HUGE, KIND_EMERGENCY, KIND_FOREIGN } kind_t;

typedef struct found {
    kind_t kind;
    unsigned cls;
    size_t size;
} found_t;

static found_t find_large(const char *verb, void *block, const void *caller) {
    void *start = large_start(block);
    size_t size = large_size(start);
    if (start != block)
        misuse_interior(verb, block, start, size, caller);
    else if (!large_is_live(block))
        misuse_double_free(verb, block, size, caller);
    else if (map_lookup(block) == HK_MAP_RUN_HEAD ||
             slab_block_is_good(verb, block, map_lookup(block) & HK_MAP_CLASS_MAX, caller))
        return (found_t){KIND_LARGE, 0, size};
    return (found_t){KIND_NONE, 0, 0};
}

/* What the program may use at `block`, or a report in the name of `verb` and KIND_NONE. */
static found_t find_block(const char *verb, void *block, const void *caller) {
    uint32_t entry = map_lookup(block);
    unsigned cls = entry & HK_MAP_CLASS_MAX;
    if (map_is_run(entry))
        return find_large(verb, block, caller);
    if (entry != 0) {
        bool good = slab_block_is_good(verb, block, cls, caller);
        return (found_t){good ? KIND_SLAB : KIND_NONE, cls, hk_class_info[cls].block_size};
    }
    if (map_slot(block) < map_count()) {
        misuse_no_block(verb, block, caller);
        return (found_t){KIND_NONE, 0, 0};
    }
    void *start;
    size_t size;
    size = emergency_size(block);
    if (hk_unlikely(size != 0))
        return (found_t){KIND_EMERGENCY, 0, size};
    if (fork_attend() ? !huge_find(block, &start, &size) : !huge_find_try(block, &start, &size))
        return (found_t){KIND_FOREIGN, 0, 0};
    if (start == block)
        return (found_t){KIND_HUGE, 0, size};
    misuse_interior(verb, block, start, size, caller);
    return (found_t){KIND_NONE, 0, 0};
}

/* Whether hardened.c handed it out. */
static bool is_hardened(const found_t *found) {
    return hardened_is_on() && (found->kind == KIND_SLAB || found->kind == KIND_LARGE || found->kind == KIND_HUGE);
}

/* What the program may use of it. */
static size_t usable(const void *block, const found_t *found) {
    return is_hardened(found) ? hardened_size(block, found->size) : found->size;
}

size_t heap_usable_size(const void *block, const void *caller) {
    if (block == NULL)
        return 0;
    found_t found = find_block("malloc_usable_size", (void *)(uintptr_t)block, caller);
    if (found.kind != KIND_FOREIGN)
        return usable(block, &found);
    if (!fork_attend())
        return 0;
    libc_allocator_t libc;
    if (is_libc_memory(block, &libc) && libc.usable_size != NULL)
        return libc.usable_size((void *)(uintptr_t)block);
    misuse_foreign("malloc_usable_size", block, caller);
    return 0;
}

/* --- Realloc ---------------------------------------------------------------------------------------------------------- */

static HK_COLD void *realloc_foreign(void *block, size_t size, const void *caller) {
    libc_allocator_t libc;
    if (!fork_attend()) /* it may be huge: the registry cannot be asked */
        return fail();
    if (!is_libc_memory(block, &libc) || libc.usable_size == NULL) {
        misuse_foreign("realloc", block, caller);
        return fail();
    }
    void *copy = heap_malloc_slow(size);
    if (copy == NULL)
        return NULL;
    memcpy(copy, block, hk_min(size, libc.usable_size(block)));
    hk_count(foreign_forwards);
    libc.free(block);
    return copy;
}

static void free_any(void *block) {
    uint32_t cls = map_lookup(block) ^ hk_front->tag;
    if (cls < HK_CLASS_COUNT && !hardened_is_on()) {
        (void)map_clear_live(map_granule(block));
        magazine_free(heap_current(), cls, block);
    } else {
        heap_free_other(block, map_lookup(block) ^ hk_front->tag, hk_front, map_granule(block));
    }
}

void *heap_keep_whole(void *block, int saved_errno) {
    atomic_store_explicit(&kept_whole, true, memory_order_relaxed);
    errno = saved_errno;
    return block;
}

static void *move_block(void *block, size_t old_size, size_t size) {
    int saved = errno;
    void *copy = heap_malloc_slow(size);
    if (copy == NULL)
        return size <= old_size ? heap_keep_whole(block, saved) : NULL;
    memcpy(copy, block, hk_min(old_size, size));
    free_any(block);
    return copy;
}

static void *resize_in_place(void *block, size_t size, const found_t *found) {
    heap_t *h = heap_current();
    if (found->kind == KIND_SLAB)
        return heap_block_stays(found->cls, size) ? block : NULL;
    if (size <= HK_MID_MAX || (size > found->size && !limit_allows(size - found->size)))
        return NULL;
    if (found->kind == KIND_LARGE && (size + HK_SLOT_SIZE - 1) >> HK_SLOT_SHIFT != found->size >> HK_SLOT_SHIFT)
        untag(h, block, map_lookup(block));
    if (found->kind == KIND_LARGE)
        return large_resize(h != NULL ? &h->large : &heap_pool()->large, block, size);
    return huge_resize(block, size);
}

void *heap_realloc(void *block, size_t size, const void *caller) {
    if (block == NULL)
        return heap_malloc_slow(size);
    found_t found = find_block("realloc", block, caller);
    if (found.kind == KIND_NONE)
        return fail();
    if (size == 0) {
        free_any(block);
        return NULL;
    }
    if (size > SIZE_POSSIBLE)
        return fail();
    if (found.kind == KIND_FOREIGN)
        return realloc_foreign(block, size, caller);
    if (hk_unlikely(found.kind == KIND_EMERGENCY || !fork_attend()))
        return size <= found.size ? block : move_block(block, usable(block, &found), size);
    if (hk_unlikely(is_hardened(&found)))
        return hardened_realloc(block, hardened_size(block, found.size), size, caller);
    void *same = resize_in_place(block, size, &found);
    return same != NULL ? same : move_block(block, found.size, size);
}

/* --- Sized free ---------------------------------------------------------------------------------------------------------- */

static bool size_fits(const void *block, const found_t *found, size_t align, size_t size) {
    size_t asked = size + (size == 0);
    if (is_hardened(found))
        return hardened_size_fits(block, found->size, align, size);
    if (hk_unlikely(atomic_load_explicit(&kept_whole, memory_order_relaxed)))
        return asked <= found->size;
    if (found->kind == KIND_LARGE)
        return (align > HK_ALIGNMENT || asked > HK_MID_MAX / 2) && asked <= found->size;
    if (found->kind != KIND_SLAB || asked > found->size)
        return asked <= found->size;
    unsigned cls = align <= HK_ALIGNMENT ? class_of(asked) : class_of_aligned(asked, align);
    /* It may have been borrowed, or been larger before. */
    return cls == found->cls || heap_block_stays(found->cls, hk_class_info[cls].block_size);
}

void heap_free_sized(void *block, size_t align, size_t size, const char *verb, const void *caller) {
    if (block == NULL)
        return;
    found_t found = find_block(verb, block, caller);
    if (found.kind == KIND_NONE)
        return;
    if (found.kind != KIND_FOREIGN && misuse_is_watched() && !size_fits(block, &found, align, size)) {
        misuse_wrong_size(verb, block, usable(block, &found), size, caller);
        return;
    }
    free_any(block);
}
