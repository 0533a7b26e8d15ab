/* SPDX-License-Identifier: MIT */
#include "slow/realloc.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/panic.h"
#include "heap/runs.h"
#include "heap/slot_cache.h"
#include "heap/wake.h"
#include "large/huge.h"
#include "limit/limit.h"
#include "map/pointer.h"
#include "slow/blocks.h"
#include "slow/classify.h"
#include "slow/free.h"
#include "slow/hardened.h"
#include "slow/heaps.h"
#include "slow/malloc.h"
#include "slow/sampled.h"
#include "slow/tagged.h"
#include "start/fork.h"
#include "start/start.h"
#include "sys/sys.h"
#include "watch/misuse.h"

#include <errno.h>
#include <string.h>

size_t heap_usable_size(const void *pointer, const void *caller) {
    const void *block = tagged_enter("malloc_usable_size", pointer, caller);
    if (block == NULL)
        return 0;
    found_t found = classify("malloc_usable_size", (void *)(uintptr_t)block, caller);
    if (found.kind != KIND_FOREIGN)
        return found_usable(block, &found);
    if (!fork_attend())
        return 0;
    libc_allocator_t libc;
    if (classify_is_libcs(block, &libc) && libc.usable_size != NULL)
        return libc.usable_size((void *)(uintptr_t)block);
    misuse_foreign("malloc_usable_size", block, caller);
    return 0;
}

static HK_COLD void *realloc_foreign(void *block, size_t size, const void *caller) {
    libc_allocator_t libc;
    if (!fork_attend()) /* it may be huge: the registry cannot be asked */
        return heap_fail();
    if (!classify_is_libcs(block, &libc) || libc.usable_size == NULL) {
        misuse_foreign("realloc", block, caller);
        return heap_fail();
    }
    void *copy = heap_malloc(size, caller);
    if (copy == NULL)
        return NULL;
    hk_libc_memcpy(copy, block, hk_min(size, libc.usable_size(block)));
    hk_count(foreign_forwards);
    libc.free(block);
    return copy;
}

static void *move_block(void *block, size_t old_size, size_t size, const void *caller) {
    int saved = errno;
    size_t room = heap_grows_little(old_size, size) ? hk_min(old_size + old_size / 4, HK_MID_MAX) : size;
    void *copy = room > size ? heap_malloc_roomy(size, room, caller) : heap_malloc(size, caller);
    if (copy == NULL)
        return size <= old_size ? heap_keep_whole(block, saved) : NULL;
    hk_libc_memcpy(copy, pointer_to(block), hk_min(old_size, size));
    heap_free_found(block, caller);
    return copy;
}

/* A run that shrinks a little below the sizes of runs stays one, where its last slot is used well. */
static bool is_run_for(const found_t *found, size_t size) {
    return found->kind == KIND_LARGE && found->cls == HK_CLASS_COUNT && size <= found->size && size > HK_MID_MAX / 2 &&
           size >= found->size / 2 && hk_align_up(size, HK_SLOT_SIZE) - size <= size / STAY_SHARE;
}

static void *resize_big(heap_t *h, void *block, size_t size, const found_t *found) {
    if (found_may_grow_alone(found, size)) /* into what is taken: no limit is asked */
        return heap_alone_grow(h, block, size) ? block : NULL;
    if (size <= HK_MID_MAX && !is_run_for(found, size))
        return NULL;
    if (size > found->size && !limit_allows(size - found->size))
        return NULL;
    if (found->kind == KIND_LARGE && (size + HK_SLOT_SIZE - 1) >> HK_SLOT_SHIFT != found->size >> HK_SLOT_SHIFT)
        heap_untag(h, block, map_lookup(block));
    if (found->kind == KIND_LARGE && size > found->size) {
        if (slot_cache_extend(h, block, size))
            return block;
        slot_cache_make_way(h, block);
    }
    if (found->kind == KIND_LARGE)
        return large_resize(h != NULL ? &h->large : &heap_shared()->large, block, size, limit_is_far(size));
    return huge_resize(block, size);
}

static void *resize_in_place(void *block, size_t size, const found_t *found, const void *caller) {
    heap_t *h = heap_current();
    if (found_stays(found, size)) {
        (void)sample_resize(block, size, found->size, false);
        return block;
    }
    if (found->kind == KIND_SLAB)
        return NULL;
    void *same = resize_big(h, block, size, found);
    if (same != NULL)
        heap_sample_resized(h, block, same, found_had_chance(found, size), size, caller);
    if (size < found->size)
        heap_memory_freed(NULL);
    return same;
}

/* --- Blocks of heaps that the program makes ----------------------------------------------------------------------- */

/* What a block that shrinks leaves would stay with it: a hardened one stays where that is little. */
static bool hardened_stays(void *block, size_t size, const found_t *found, const void *caller) {
    return (found->kind == KIND_SLAB || size >= found->size - found->size / STAY_SHARE) &&
           hardened_expand(block, found->size, size, caller);
}

static void *explicit_in_place(void *block, size_t size, const found_t *found, const void *caller) {
    if (found_is_hardened(found))
        return hardened_stays(block, size, found, caller) ? block : NULL;
    if (found->kind == KIND_SLAB)
        return heap_block_stays(found->cls, size) ? block : NULL;
    if (size <= HK_MID_MAX)
        return NULL;
    return found->kind == KIND_LARGE ? runs_resize(block, size, true) : runs_resize_huge(block, size, true);
}

/* Bytes of it that the program may have filled. */
static size_t held_by(const void *block, const found_t *found) {
    return found_is_hardened(found) ? hardened_held(block, found->size) : found->size;
}

/* Memory is out: one that shrinks does so where it is. */
static void *stay(void *block, size_t size, const found_t *found, int saved_errno, const void *caller) {
    const bool is_hardened = found_is_hardened(found);
    if (size > held_by(block, found))
        return NULL;
    return is_hardened ? hardened_stay(block, size, saved_errno, caller) : heap_keep_whole(block, saved_errno);
}

static void *move(void *copy, void *block, size_t size, const found_t *found, const void *caller) {
    if (copy == NULL)
        return NULL;
    hk_libc_memcpy(copy, pointer_to(block), hk_min(held_by(block, found), size));
    heap_free_found(block, caller);
    return copy;
}

/* The block, which is the program's, becomes one of `to`; or stays in its heap, when that is NULL. */
static void *realloc_to(heap_t *to, void *block, size_t size, const found_t *found, const void *caller) {
    const bool is_there = to == NULL || heaps_of(block) == to;
    void *same = is_there ? explicit_in_place(block, size, found, caller) : NULL;
    if (same != NULL) {
        heap_memory_freed(NULL);
        return same;
    }
    const int saved = errno;
    void *copy = to == NULL ? heaps_alloc_beside(block, HK_ALIGNMENT, size, caller)
                            : heaps_alloc(to, HK_ALIGNMENT, size, false, caller);
    return copy == NULL && is_there ? stay(block, size, found, saved, caller) : move(copy, block, size, found, caller);
}

void *heap_realloc_to(heap_t *to, void *pointer, size_t size, const void *caller) {
    if (pointer == NULL)
        return heaps_alloc(to, HK_ALIGNMENT, size, false, caller);
    void *block = tagged_enter("hak_heap_realloc", pointer, caller);
    if (block == NULL)
        return heap_fail();
    found_t found = classify("hak_heap_realloc", block, caller);
    if (found.kind == KIND_FOREIGN)
        misuse_foreign("hak_heap_realloc", block, caller);
    if (found.kind == KIND_NONE || found.kind == KIND_FOREIGN || size > HEAP_SIZE_POSSIBLE)
        return heap_fail();
    if (size != 0)
        return pointer_to(realloc_to(to, block, size, &found, caller));
    heap_free_found(block, caller);
    return NULL;
}

/* --- Any block ---------------------------------------------------------------------------------------------------- */

static void *resize(void *block, size_t size, const void *caller) {
    found_t found = classify("realloc", block, caller);
    if (found.kind == KIND_NONE)
        return heap_fail();
    if (size == 0) {
        heap_free_found(block, caller);
        return NULL;
    }
    if (size > HEAP_SIZE_POSSIBLE)
        return heap_fail();
    if (found.kind == KIND_FOREIGN)
        return realloc_foreign(block, size, caller);
    if (hk_unlikely(found.kind == KIND_GUARDED))
        return size == found.size ? block : move_block(block, found.size, size, caller);
    if (hk_unlikely(found.kind == KIND_EMERGENCY || found.kind == KIND_NOTHING || !fork_attend()))
        return size <= found.size ? block : move_block(block, found_usable(block, &found), size, caller);
    if (hk_unlikely(heaps_of(block) != NULL))
        return realloc_to(NULL, block, size, &found, caller);
    if (hk_unlikely(found_is_hardened(&found)))
        return hardened_realloc(block, held_by(block, &found), size, caller);
    void *same = resize_in_place(block, size, &found, caller);
    return same != NULL ? same : move_block(block, found.size, size, caller);
}

void *heap_realloc(void *pointer, size_t size, const void *caller) {
    if (pointer == NULL)
        return heap_malloc(size, caller);
    void *block = tagged_enter("realloc", pointer, caller);
    return block != NULL ? pointer_to(resize(block, size, caller)) : heap_fail();
}

/* --- At a multiple of an alignment -------------------------------------------------------------------------------- */

/* What a block of its kind keeps wherever its pages go: a run begins with a slot, a huge block with a page. */
static size_t aligned_anyway(const found_t *found) {
    if (found->kind == KIND_LARGE)
        return HK_SLOT_SIZE;
    return found->kind == KIND_HUGE ? sys_page_size() : found->kind == KIND_SLAB ? HK_MID_MAX : 0;
}

/* A sized free, which has the alignment, must find the class that it expects. */
static void *aligned_in_place(void *block, size_t align, size_t size, const found_t *found, const void *caller) {
    if ((uintptr_t)block % align != 0 || align > aligned_anyway(found))
        return NULL;
    if (found->cls < HK_CLASS_COUNT && !found_stays(found, hk_align_up(size, align)))
        return NULL;
    if (found_is_hardened(found))
        return hardened_stays(block, size, found, caller) ? block : NULL;
    return heaps_of(block) != NULL ? explicit_in_place(block, size, found, caller)
                                   : resize_in_place(block, size, found, caller);
}

static void *move_aligned(void *block, size_t align, size_t size, const found_t *found, const void *caller) {
    const int saved = errno;
    void *copy = heaps_alloc_beside(block, align, size, caller);
    const bool may_stay = (uintptr_t)block % align == 0;
    return copy == NULL && may_stay ? stay(block, size, found, saved, caller) : move(copy, block, size, found, caller);
}

static void *resize_aligned(void *block, size_t align, size_t size, const void *caller) {
    found_t found = classify("hak_aligned_realloc", block, caller);
    if (found.kind == KIND_FOREIGN)
        misuse_foreign("hak_aligned_realloc", block, caller);
    if (found.kind == KIND_NONE || found.kind == KIND_FOREIGN || size > HEAP_SIZE_POSSIBLE)
        return heap_fail();
    if (size == 0) {
        heap_free_found(block, caller);
        return NULL;
    }
    void *same = fork_attend() ? aligned_in_place(block, align, size, &found, caller) : NULL;
    return same != NULL ? same : move_aligned(block, align, size, &found, caller);
}

void *heap_aligned_realloc(void *pointer, size_t align, size_t size, const void *caller) {
    hk_assert(align > HK_ALIGNMENT && hk_is_pow2(align));
    if (pointer == NULL)
        return heap_aligned_by(align, size, caller);
    void *block = tagged_enter("hak_aligned_realloc", pointer, caller);
    return block != NULL ? pointer_to(resize_aligned(block, align, size, caller)) : heap_fail();
}
