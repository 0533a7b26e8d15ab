/* SPDX-License-Identifier: MIT */
#include "slow/classify.h"

#include "core/panic.h"
#include "heap/nothing.h"
#include "heap/search.h"
#include "large/fence.h"
#include "large/huge.h"
#include "slow/hardened.h"
#include "start/emergency.h"
#include "start/fork.h"
#include "watch/foreign.h"
#include "watch/guard.h"
#include "watch/misuse.h"

/* It starts no block of the class. Behind the last block of a slab there is none that it could lie in. */
static void report_no_start(const char *verb, const void *address, unsigned cls, const void *caller) {
    hk_assert(cls < HK_MAGAZINE_COUNT);
    const size_t size = hk_class_info[cls].block_size;
    const unsigned index = cls < HK_CLASS_COUNT ? class_block_index(&hk_classes[cls], address) : 0;
    if (cls >= HK_CLASS_COUNT)
        misuse_interior(verb, address, large_start(address), size, caller);
    else if (index < hk_class_info[cls].block_count)
        misuse_interior(verb, address, slab_base(slab_of(address, cls)) + index * size, size, caller);
    else
        misuse_no_block(verb, address, caller);
}

/* Its live bit is clear as it is sampled; or it may be: a stranded process cannot ask. */
static bool is_sampled(const void *block) {
    return sample_was_ever_on() && (!fork_attend() || sample_has_suspect(block));
}

bool classify_is_good(const char *verb, void *block, unsigned cls, const void *caller) {
    hk_assert(cls < HK_MAGAZINE_COUNT);
    if (!class_is_block(&hk_classes[cls], block)) {
        report_no_start(verb, block, cls, caller);
        return false;
    }
    if (!map_is_live(map_granule(block)) && hk_misuse_is_watched() && !is_sampled(block) &&
        heap_block_is_free(block, cls)) {
        misuse_double_free(verb, block, hk_class_info[cls].block_size, caller);
        return false;
    }
    return true;
}

/* The live bit of a run of an explicit heap is clear while the heap lets go of it: what counts is the run's state, and
 * the heap's word under its lock (heap/runs.h). */
bool classify_run_is_good(const char *verb, void *block, uint32_t entry, const void *caller) {
    return entry == HK_MAP_RUN_HEAD || map_is_explicit(entry) ||
           classify_is_good(verb, block, entry & HK_MAP_CLASS_MAX, caller);
}

bool classify_is_libcs(const void *block, libc_allocator_t *libc) {
    foreign_t where;
    foreign_classify(block, &where);
    if (where.kind != FOREIGN_BRK && where.kind != FOREIGN_ANONYMOUS && where.kind != FOREIGN_UNKNOWN)
        return false;
    libc_allocator_find(libc);
    return libc->free != NULL && libc->holds_memory && (uintptr_t)block % HK_ALIGNMENT == 0;
}

static found_t find_large(const char *verb, void *block, const void *caller) {
    void *start = large_start(block);
    size_t size = large_open_size(start);
    if (start != block)
        misuse_interior(verb, block, start, size, caller);
    else if (!large_is_live(block))
        misuse_double_free(verb, block, size, caller);
    else if (classify_run_is_good(verb, block, map_lookup(block), caller))
        return (found_t){KIND_LARGE, large_alone_class(block), size};
    return (found_t){KIND_NONE, 0, 0};
}

/* A block of size 0 of a hardened heap. */
static HK_COLD found_t find_nothing(const char *verb, const void *block, const void *caller) {
    if (nothing_is_live(block))
        return (found_t){KIND_NOTHING, 0, 0};
    if (nothing_is_live(nothing_at(block)))
        misuse_interior(verb, block, nothing_at(block), 0, caller);
    else
        misuse_double_free(verb, block, 0, caller);
    return (found_t){KIND_NONE, 0, 0};
}

static HK_COLD found_t find_guarded(const char *verb, const void *block, const void *caller) {
    size_t size;
    if (guard_find(verb, block, &size, caller))
        return (found_t){KIND_GUARDED, 0, size};
    return (found_t){KIND_NONE, 0, 0};
}

/* Whether nothing is at an address of the window: it is our memory, or nobody's. Where the window has nothing of ours,
 * the kernel may have put somebody else's. The region is asked twice, as another thread may claim the place meanwhile.
 */
static bool is_void(const void *block) {
    const size_t index = map_slot(block) / HK_SLOTS_PER_SUPERSLAB;
    if (region_has(index))
        return true;
    foreign_t where;
    foreign_classify(block, &where);
    return where.kind == FOREIGN_UNMAPPED || where.kind == FOREIGN_UNKNOWN || region_has(index);
}

/* A block that was freed, or one that never was ours. */
static found_t find_freed(const char *verb, const void *block, const void *caller) {
    size_t size;
    if (huge_was_freed(block, &size))
        misuse_double_free(verb, block, size, caller);
    else if (map_slot(block) < map_count() && is_void(block))
        misuse_no_block(verb, block, caller);
    else
        return (found_t){KIND_FOREIGN, 0, 0};
    return (found_t){KIND_NONE, 0, 0};
}

static found_t find_huge(const char *verb, const void *block, const void *start, size_t size, const void *caller) {
    if (start == block)
        return (found_t){KIND_HUGE, 0, size};
    misuse_interior(verb, block, start, size, caller);
    return (found_t){KIND_NONE, 0, 0};
}

found_t classify_apart(const char *verb, const void *block, const void *caller) {
    void *start;
    size_t size = emergency_size(block);
    if (hk_unlikely(size != 0))
        return (found_t){KIND_EMERGENCY, 0, size};
    if (hk_unlikely(nothing_holds(block)))
        return find_nothing(verb, block, caller);
    if (hk_unlikely(guard_holds(block)))
        return find_guarded(verb, block, caller);
    const bool attends = fork_attend(); /* else nobody may wait for a lock, or knows what became of a block */
    if (attends ? huge_find(block, &start, &size) : huge_find_try(block, &start, &size))
        return find_huge(verb, block, start, size, caller);
    return attends ? find_freed(verb, block, caller) : (found_t){KIND_FOREIGN, 0, 0};
}

found_t classify(const char *verb, void *block, const void *caller) {
    uint32_t entry = map_lookup(block);
    unsigned cls = entry & HK_MAP_CLASS_MAX;
    if (map_is_run(entry))
        return find_large(verb, block, caller);
    if (entry != 0) {
        bool good = classify_is_good(verb, block, cls, caller);
        return (found_t){good ? KIND_SLAB : KIND_NONE, cls, hk_class_info[cls].block_size};
    }
    return classify_apart(verb, block, caller);
}

bool found_is_hardened(const found_t *found) {
    return hardened_is_on() && (found->kind == KIND_SLAB || found->kind == KIND_LARGE || found->kind == KIND_HUGE);
}

size_t found_usable(const void *block, const found_t *found) {
    return found_is_hardened(found) ? hardened_size(block, found->size) : found->size;
}
