/* SPDX-License-Identifier: MIT */
#include "slow/sizes.h"

#include "base/bits.h"
#include "heap/runs.h"
#include "heap/slot_cache.h"
#include "heap/wake.h"
#include "large/fence.h"
#include "large/huge.h"
#include "limit/limit.h"
#include "slow/blocks.h"
#include "slow/classify.h"
#include "slow/hardened.h"
#include "slow/heaps.h"
#include "slow/realloc.h"
#include "slow/sampled.h"
#include "slow/tagged.h"
#include "start/fork.h"
#include "start/start.h"
#include "sys/sys.h"
#include "watch/guard.h"
#include "watch/misuse.h"

size_t heap_good_size(size_t size) {
    if (size > HEAP_SIZE_POSSIBLE)
        return 0;
    if (!heap_system_ready() || (guard_interval() != 0 && guard_fits(size, 1))) /* a guarded block has no more */
        return size;
    size_t hardened = hardened_is_on() ? hardened_good_size(size) : 0;
    if (hk_unlikely(hardened != 0 || hk_hardened_level >= 3))
        return hardened;
    if (size <= HK_MID_MAX && !hardened_is_on())
        return hk_class_info[class_of(size + (size == 0))].block_size;
    return hk_align_up(size, size <= HK_LARGE_MAX ? HK_SLOT_SIZE : sys_page_size());
}

/* A run that leaves the size of its magazine's class leaves the magazine's way too. */
static bool resize_run(void *block, size_t size, size_t old_size) {
    if (map_is_explicit(map_lookup(block)))
        return runs_resize(block, size, false) != NULL;
    heap_t *h = heap_current();
    if (hk_align_up(size, HK_SLOT_SIZE) != old_size)
        heap_untag(h, block, map_lookup(block));
    if (size > old_size) {
        if (slot_cache_extend(h, block, size))
            return true;
        slot_cache_make_way(h, block);
    }
    return large_resize_here(h != NULL ? &h->large : &heap_shared()->large, block, size);
}

static bool resize_here(void *block, size_t size, const found_t *found, const void *caller) {
    if (hk_unlikely(found_is_hardened(found)))
        return hardened_expand(block, found->size, size, caller);
    if (found_stays(found, size) || found->kind == KIND_SLAB)
        return found_stays(found, size);
    if (found->kind == KIND_GUARDED)
        return size == found->size;
    if (found->kind == KIND_EMERGENCY || found->kind == KIND_NOTHING || !fork_attend())
        return size <= found->size;
    if (found_may_grow_alone(found, size))
        return heap_alone_grow(heap_current(), block, size);
    if (size <= HK_MID_MAX || (size > found->size && !limit_allows(size - found->size)))
        return false;
    return found->kind == KIND_LARGE ? resize_run(block, size, found->size)
                                     : runs_resize_huge(block, size, false) != NULL;
}

static size_t size_now(const void *block, const found_t *found) {
    void *start;
    size_t size = 0;
    if (found_is_hardened(found))
        return hardened_size(block, heap_block_size(block));
    if (found->kind == KIND_LARGE)
        return large_open_size(block);
    return found->kind == KIND_HUGE && huge_find(block, &start, &size) ? size : found->size;
}

/* Blocks of heaps that the program makes are not sampled. */
static void note_size(void *block, size_t size, const found_t *found, const void *caller) {
    if (!sample_was_ever_on() || !fork_attend() || heaps_of(block) != NULL)
        return;
    if (found->kind == KIND_SLAB || found_is_hardened(found)) /* its slack is smaller or larger, and that is all */
        (void)sample_resize(block, size, found->size, false);
    else if (found->kind == KIND_LARGE || found->kind == KIND_HUGE)
        heap_sample_resized(heap_current(), block, block, found_had_chance(found, size), size, caller);
}

size_t heap_expand(void *pointer, size_t size, const void *caller) {
    void *block = tagged_enter("hak_expand", pointer, caller);
    if (block == NULL)
        return 0;
    found_t found = classify("hak_expand", block, caller);
    if (found.kind == KIND_FOREIGN)
        misuse_foreign("hak_expand", block, caller);
    if (found.kind == KIND_NONE || found.kind == KIND_FOREIGN || size > HEAP_SIZE_POSSIBLE)
        return 0;
    if (!resize_here(block, size, &found, caller))
        return 0;
    note_size(block, size, &found, caller);
    heap_memory_freed(NULL);
    return size_now(block, &found);
}
