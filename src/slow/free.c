/* SPDX-License-Identifier: MIT */
#include "slow/free.h"

#include "base/wide.h"
#include "core/counters.h"
#include "core/panic.h"
#include "heap/explicit.h"
#include "heap/lease.h"
#include "heap/magazine.h"
#include "heap/nothing.h"
#include "heap/remote.h"
#include "heap/slot_cache.h"
#include "heap/supply.h"
#include "heap/wake.h"
#include "large/fence.h"
#include "large/huge.h"
#include "limit/limit.h"
#include "slow/blocks.h"
#include "slow/classify.h"
#include "slow/hardened.h"
#include "slow/sampled.h"
#include "slow/tagged.h"
#include "slow/tick.h"
#include "start/emergency.h"
#include "start/fork.h"
#include "start/start.h"
#include "watch/guard.h"
#include "watch/misuse.h"

#include <errno.h>

enum { ADOPTED_SHARE = 8 };

/* Into the magazine. `h` is NULL in a stranded process, which loses the block. */
static void free_own(heap_t *h, unsigned cls, void *block) {
    hk_assert(cls < HK_MAGAZINE_COUNT);
    if (hk_unlikely(h == NULL))
        return;
    magazine_free(h, cls, block);
    heap_tick_if_due(h);
}

void heap_free_full(void *block, const heap_front_t *at) {
    unsigned cls = (unsigned)(at->magazines - hk_front->magazines);
    hk_assert(!hardened_is_on());
    free_own(heap_current(), cls, block);
}

void heap_free_suspect(void *block, uint32_t cls) {
    heap_t *h = heap_current();
    if ((h != NULL && sample_close_suspect(block, heap_draw(h))) ||
        classify_is_good("free", block, cls, __builtin_return_address(0)))
        free_own(h, cls, block);
}

/* What another heap's thread may keep instead of giving it back: its own next block. */
HK_INLINE bool may_keep(const heap_t *h, uint32_t cls) { return h->class_stats[cls].circulates; }

static HK_NOINLINE void keep_where_full(heap_t *h, uint32_t cls, void *block) {
    if (!fork_attend())
        return;
    free_own(h, cls, block);
    hk_add(h->class_stats[cls].freed_remote, 1);
    hk_add(h->class_stats[cls].kept, 1);
}

static HK_NOINLINE void keep_foreign(heap_t *h, uint32_t cls, granule_t granule) {
    hk_assert(cls >= HK_MAP_CLASS_APART && cls < HK_CLASS_COUNT);
    magazine_t *magazine = &h->front.magazines[cls];
    if (hk_unlikely(magazine->below == magazine->last)) {
        keep_where_full(h, cls, map_granule_address(granule));
        return;
    }
    magazine_push(magazine, granule);
    hk_add_in_place(h->class_stats[cls].freed_remote, 1);
    hk_add_in_place(h->class_stats[cls].kept, 1);
}

/* Into the table where another word has the place, or reports. A stranded process loses the block. */
static HK_NOINLINE void return_displacing(heap_t *h, void *block, uint32_t cls, const void *caller) {
    hk_assert(cls < HK_CLASS_COUNT);
    if (!fork_attend())
        return;
    if (!heap_remote_add(h, slab_base(slab_of(block, cls)), cls, class_block_index(&hk_classes[cls], block)))
        misuse_double_free("free", block, hk_class_info[cls].block_size, caller);
}

static HK_NOINLINE void post_all(heap_t *h) {
    if (fork_attend())
        heap_remote_post_all(h);
}

HK_INLINE void return_foreign(heap_t *h, void *block, uint32_t cls, const void *caller) {
    const size_class_t *c = &hk_classes[cls];
    uint32_t offset = class_slab_offset(c, block);
    if (hk_unlikely(!heap_remote_note_in_place(h, (char *)block - offset, cls, class_index_at(c, offset)))) {
        return_displacing(h, block, cls, caller);
        return;
    }
    hk_add_in_place(h->class_stats[cls].freed_remote, 1);
    if (hk_unlikely(heap_remote_is_much(h)))
        post_all(h);
}

HK_INLINE void pass_foreign(heap_t *h, void *block, uint32_t cls, granule_t granule, const void *caller) {
    if (may_keep(h, cls))
        keep_foreign(h, cls, granule);
    else
        return_foreign(h, block, cls, caller);
}

/* For threads that have no heap (any more). */
static HK_COLD void return_without_heap(void *block, uint32_t cls, const void *caller) {
    hk_assert(cls < HK_CLASS_COUNT);
    const remote_entry_t word = heap_remote_word(block, cls);
    uint64_t double_frees = heap_remote_give(&word);
    hk_count(remote_batches);
    heap_t *shared = heap_shared();
    heap_lock(shared);
    hk_add(shared->class_stats[cls].freed_remote, 1);
    heap_unlock(shared);
    if (hk_unlikely(double_frees != 0))
        misuse_double_free("free", block, hk_class_info[cls].block_size, caller);
}

/* Whether frees of more of the slab's blocks will follow: more than an eighth of them are out. Of a slab that is free
 * but for a few, the one that lies in this thread's magazine would keep the others from all threads. Read without a
 * lock, so a hint. */
static HK_SNAPSHOT bool is_worth_adopting(const void *block, uint32_t cls) {
    const slab_t *slab = slab_of(block, cls);
    return slab->block_count - slab->free_count > slab->block_count / ADOPTED_SHARE;
}

/* A thread that only frees would keep what others could use. */
static bool adopts(heap_t *h, void *block, uint32_t cls) {
    hk_assert(cls < HK_CLASS_COUNT);
    return h->class_stats[cls].refills > 0 && map_lookup(block) >> 8 == HK_OWNER_SHARED &&
           is_worth_adopting(block, cls) && heap_adopt_freed_slab(h, slab_of(block, cls), cls);
}

/* A block of a heap that the program made, whose live bit this free has found set or not. False when the heap was
 * released meanwhile. */
static bool free_explicit(void *block, unsigned cls, bool was_live, const void *caller) {
    hk_assert(cls < HK_CLASS_COUNT);
    heap_t *h = heap_current();
    if (was_live && h != NULL && lease_make_room(h, map_lookup(block))) {
        lease_push(h->front.lease, cls, map_granule(block));
        heap_memory_freed(NULL);
        return true;
    }
    size_t size = hk_class_info[cls].block_size;
    bool double_free = !was_live;
    if (was_live && hk_unlikely(hardened_is_on()) && !hardened_end(block, cls, caller))
        return true;
    if (was_live && !explicit_give(block, cls, &double_free)) {
        if (hk_unlikely(hardened_is_on())) /* its seal is gone by now */
            hardened_put_cleared(block, cls, caller);
        return hardened_is_on();
    }
    if (hk_unlikely(double_free))
        misuse_double_free("free", block, size, caller);
    else
        heap_memory_freed(NULL);
    return true;
}

/* A block of another heap, or of none. */
static void free_remote(void *block, unsigned cls, const void *caller) {
    heap_t *h = heap_current();
    bool was_sampled = class_is_block(&hk_classes[cls], block) && sample_close_suspect(block, heap_draw(h));
    if (!was_sampled && !classify_is_good("free", block, cls, caller))
        return;
    bool was_live = was_sampled || map_clear_live_shared(map_granule(block));
    if (map_is_explicit(map_lookup(block)) && free_explicit(block, cls, was_live, caller))
        return;
    if (hk_unlikely(hardened_is_on()) && !was_live) { /* another thread frees it at this moment */
        misuse_double_free("free", block, hk_class_info[cls].block_size, caller);
    } else if (hk_unlikely(hardened_is_on())) {
        hardened_keep_free(h, block, was_sampled, caller);
        hardened_free_dead(block, cls, caller);
    } else if (h == NULL) {
        return_without_heap(block, cls, caller);
    } else if (adopts(h, block, cls)) {
        free_own(h, cls, block);
    } else {
        pass_foreign(h, block, cls, map_granule(block), caller);
    }
}

/* As free_explicit. */
static bool free_explicit_run(void *block, size_t size, const void *caller) {
    bool double_free = false;
    if (hk_unlikely(hardened_is_on()) && large_is_live(block) && !hardened_is_whole(block, size, caller))
        return true;
    if (!runs_give(block, &double_free))
        return false;
    if (hk_unlikely(double_free))
        misuse_double_free("free", block, size, caller);
    else
        heap_run_freed(NULL, 0);
    return true;
}

static void free_large(void *block, const void *caller) {
    heap_t *h = heap_current();
    if ((uintptr_t)block % HK_SLOT_SIZE != 0) {
        void *start = large_start(block);
        misuse_interior("free", block, start, large_open_size(start), caller);
        return;
    }
    size_t size = large_open_size(block);
    uint32_t entry = map_lookup(block);
    bool was_sampled = sample_close(block, heap_draw(h));
    if (!was_sampled && !classify_run_is_good("free", block, entry, caller))
        return;
    if (map_is_explicit(entry) && free_explicit_run(block, size, caller))
        return;
    if (hk_unlikely(hardened_is_on())) {
        hardened_keep_free(h, block, was_sampled, caller);
        hardened_free_large(h, block, caller);
        heap_memory_freed(h);
        return;
    }
    heap_untag(h, block, map_lookup(block)); /* another thread may have released its heap meanwhile */
    size_t kept;
    if (!slot_cache_free(h != NULL ? h : heap_shared(), block, &kept)) {
        misuse_double_free("free", block, size, caller);
        return;
    }
    heap_run_freed(h, kept);
}

static HK_COLD void free_foreign(void *block, const void *caller) {
    int saved = errno;
    libc_allocator_t libc;
    if (classify_is_libcs(block, &libc)) {
        hk_count(foreign_forwards);
        libc.free(block);
    } else {
        misuse_foreign("free", block, caller);
    }
    errno = saved;
}

/* `block` starts a huge block of `size` bytes, unless another thread frees it at this moment. */
static void free_huge(void *block, size_t size, const void *caller) {
    heap_t *h = heap_current();
    const bool hardened = hk_unlikely(hardened_is_on());
    if (!hardened)
        (void)sample_close(block, heap_draw(h));
    if (!(hardened ? hardened_free_huge(h, block, caller) : huge_free(block)))
        misuse_double_free("free", block, size, caller);
}

static void free_guarded(void *block, const void *caller) {
    (void)sample_close(block, heap_draw(heap_current()));
    guard_free(block, caller);
}

static void free_nothing(void *block, const void *caller) {
    (void)sample_close(block, heap_draw(heap_current()));
    if (!nothing_free(block))
        misuse_double_free("free", block, 0, caller);
}

/* Where the slot table has nothing. */
static void free_apart(void *block, const void *caller) {
    const found_t found = classify_apart("free", block, caller);
    if (found.kind == KIND_GUARDED)
        free_guarded(block, caller);
    else if (found.kind == KIND_NOTHING)
        free_nothing(block, caller);
    else if (found.kind == KIND_HUGE)
        free_huge(block, found.size, caller);
    else if (found.kind == KIND_FOREIGN)
        free_foreign(block, caller);
    else if (found.kind == KIND_EMERGENCY)
        emergency_free(block);
}

/* Of a stranded process. What is not of the emergency arena is lost. */
static HK_COLD void free_stranded(void *block) {
    if (emergency_size(block) != 0)
        emergency_free(block);
}

static HK_COLD void free_other(void *block, const void *caller) {
    if (block == NULL || (hardened_is_on() && fork_attend() && hardened_free_live(block, caller)))
        return;
    if (hk_unlikely(!fork_attend())) {
        free_stranded(block);
        return;
    }
    uint32_t entry = map_lookup(block);
    if (entry == HK_MAP_RUN_BODY) {
        void *start = large_start(block);
        misuse_interior("free", block, start, large_open_size(start), caller);
    } else if (map_is_run(entry)) {
        free_large(block, caller);
    } else if (entry != 0) {
        free_remote(block, entry & HK_MAP_CLASS_MAX, caller);
    } else {
        free_apart(block, caller);
    }
}

/* With a hardened heap: longer blocks, which take a call to clear. */
static HK_NOINLINE void free_mid_hardened(void *block, uint32_t entry, heap_front_t *front, granule_t granule,
                                          const void *caller) {
    if (!hardened_free_soon(block, entry, front, granule, hk_hardened_level >= 3, false, caller))
        free_other(block, caller);
}

HK_INLINE void free_hardened(void *block, uint32_t entry, heap_front_t *front, granule_t granule, bool exact,
                             const void *caller) {
    if (!hardened_free_soon(block, entry, front, granule, exact, true, caller))
        free_mid_hardened(block, entry, front, granule, caller);
}

static HK_WIDE HK_NOINLINE void free_wide(void *block, uint32_t entry, heap_front_t *front, granule_t granule,
                                          const void *caller) {
    free_hardened(block, entry, front, granule, false, caller);
}

static HK_NOINLINE void free_narrow(void *block, uint32_t entry, heap_front_t *front, granule_t granule,
                                    const void *caller) {
    free_hardened(block, entry, front, granule, false, caller);
}

static HK_NOINLINE void free_exact(void *block, uint32_t entry, heap_front_t *front, granule_t granule,
                                   const void *caller) {
    free_hardened(block, entry, front, granule, true, caller);
}

/* By such a thread, of a pointer with a tag. */
static HK_NOINLINE void free_tagged(const void *pointer, heap_front_t *front, const void *caller) {
    void *block = tagged_enter("free", pointer, caller);
    if (hk_likely(block != NULL))
        free_narrow(block, map_granule_lookup(map_granule(block)), front, map_granule(block), caller);
}

/* By a thread without a heap, or with a hardened one. */
static HK_NOINLINE void free_untagged(void *block, uint32_t entry, heap_front_t *front, granule_t granule,
                                      const void *caller) {
    if (tags_are_on())
        free_tagged(block, front, caller);
    else if (hk_hardened_level == 2 && hk_likely(hk_seal_is_wide))
        free_wide(block, entry, front, granule, caller);
    else if (hk_hardened_level == 2)
        free_narrow(block, entry, front, granule, caller);
    else if (hardened_is_on())
        free_exact(block, entry, front, granule, caller);
    else
        free_other(block, caller);
}

HK_INLINE bool clear_foreign(granule_t granule, uint32_t cls) {
    return cls < HK_MAP_CLASS_APART ? map_clear_live_shared(granule) : map_clear_live_apart(granule);
}

/* Each tick asks anew whether blocks of others are kept, and sends what waits for others. */
static HK_NOINLINE void pass_foreign_and_tick(void *block, uint32_t cls, granule_t granule, const void *caller) {
    heap_t *h = heap_of_front(hk_front);
    (void)heap_count_out(h, 0);
    pass_foreign(h, block, cls, granule, caller);
}

/* A block of a slab that another thread's heap owns. The common case without a call: a set live bit says that it is a
 * live one. */
static HK_NOINLINE void free_of_thread(void *block, uint32_t cls, heap_front_t *front, granule_t granule,
                                       const void *caller) {
    if (hk_unlikely(!clear_foreign(granule, cls)))
        free_other(block, caller);
    else if (hk_unlikely(hk_read(front->countdown) < 0))
        pass_foreign_and_tick(block, cls, granule, caller);
    else
        pass_foreign(heap_of_front(front), block, cls, granule, caller);
}

/* Without a heap, and with a hardened one, the tag is none; outside the window `mismatch` makes no owner. Each case has
 * a function of its own, or needs no more registers than there are to use freely: none saves any for another. */
void heap_free_other(void *block, uint32_t mismatch, heap_front_t *front, granule_t granule) {
    uint32_t tag = front->tag, entry = mismatch ^ tag;
    if (hk_unlikely(tag == HK_MAP_NO_TAG))
        free_untagged(block, entry, front, granule, __builtin_return_address(0));
    else if (entry - map_tag(HK_OWNER_FIRST) < map_tag(HK_OWNER_EXPLICIT - HK_OWNER_FIRST) && !map_is_run(entry))
        free_of_thread(block, entry & HK_MAP_CLASS_MAX, front, granule, __builtin_return_address(0));
    else if (hk_unlikely(!lease_put(front, entry, granule)))
        free_other(block, __builtin_return_address(0));
}

/* As front_free. */
void heap_free_live(void *block, uint32_t mismatch, heap_front_t *front, granule_t granule) {
    if (mismatch > HK_MAP_CLASS_MAX) {
        heap_free_other(block, mismatch, front, granule);
        return;
    }
    magazine_t *magazine = &front->magazines[mismatch];
    if (hk_unlikely(!map_clear_live(granule)))
        heap_free_suspect(block, mismatch);
    else if (hk_unlikely(magazine->below == magazine->last))
        free_own(heap_current(), mismatch, block); /* which knows a child of fork */
    else
        magazine_push(magazine, granule);
}

void heap_free_found(void *block, const void *caller) {
    granule_t granule = map_granule(block);
    if (hk_unlikely(hardened_is_on()))
        free_other(block, caller);
    else
        heap_free_live(block, map_granule_lookup(granule) ^ hk_front->tag, hk_front, granule);
}
