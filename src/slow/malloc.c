/* SPDX-License-Identifier: MIT */
#include "slow/malloc.h"

#include "base/wide.h"
#include "core/panic.h"
#include "heap/magazine.h"
#include "limit/limit.h"
#include "map/pointer.h"
#include "slow/blocks.h"
#include "slow/hardened.h"
#include "slow/sampled.h"
#include "slow/tick.h"
#include "start/emergency.h"
#include "start/fork.h"
#include "start/start.h"
#include "watch/guard.h"

#include <errno.h>
#include <string.h>

enum { CALLOC_DIRECT_MIN = 8 * 1024 /* from here on it pays to know that a block reads as zeros */ };

void *heap_fail(void) {
    errno = ENOMEM;
    return NULL;
}

/* The first few blocks of a class come from the magazine of a slightly larger one that has some: a program that uses
 * many sizes a few times each then needs neither a slab nor a page for every size. Long ones lie alone instead. */
static void *borrow(heap_t *h, unsigned cls) {
    hk_assert(cls < HK_CLASS_COUNT);
    heap_class_stats_t *stats = &h->class_stats[cls];
    if (hk_likely(stats->refills > 0) || stats->borrowed >= HEAP_BORROWED_MAX || class_is_earned(cls))
        return NULL;
    stats->borrowed++;
    for (unsigned c = cls + 1; heap_may_borrow(cls, c); c++)
        if (heap_magazine_count(h, c) > 0)
            return magazine_alloc(h, c);
    return NULL;
}

/* Large classes whose thread uses them again and again go through a magazine; their runs are tagged. */
static void *large_class_alloc(heap_t *h, size_t size) {
    hk_assert(size > HK_MID_MAX);
    if (h == NULL || size > HK_MAGAZINE_SIZE_MAX)
        return NULL;
    unsigned cls = class_of(size);
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

HK_COLD void *heap_alloc_stranded(size_t align, size_t size) {
    void *block = emergency_alloc(size, align);
    return block != NULL ? memset(block, 0, size) : heap_fail();
}

/* Of a size that has been charged. NULL when memory is out. */
static void *malloc_charged(heap_t *h, size_t align, size_t size) {
    (void)align; /* none above HK_ALIGNMENT */
    if (size > HK_MID_MAX) {
        void *big = large_class_alloc(h, size);
        return big != NULL ? big : heap_big_alloc(h, size, 1, NULL);
    }
    unsigned cls = class_of(size + (size == 0));
    void *block = h != NULL ? borrow(h, cls) : NULL;
    return block != NULL ? block : heap_class_alloc(h, cls, HK_ALIGNMENT);
}

/* A block with pages of its own that nobody may touch around it, if it is time for one and it fits. */
static HK_COLD void *guarded(heap_t *h, size_t align, size_t size, const void *caller) {
    if (!guard_fits(size, align))
        return NULL;
    h->guard_due = false;
    return guard_alloc(size, align, caller);
}

HK_INLINE void *guarded_if_due(heap_t *h, size_t align, size_t size, const void *caller) {
    return h != NULL && hk_unlikely(h->guard_due) ? guarded(h, align, size, caller) : NULL;
}

/* What a request is charged. */
static size_t charge_of(size_t size) { return hk_min(hk_max(size, 1), HEAP_SIZE_POSSIBLE); }

typedef void *alloc_charged_t(heap_t *h, size_t align, size_t size);
typedef void *alloc_hardened_t(heap_t *h, size_t align, size_t size, const void *caller);

/* `charged` says whether it is, if the thread had a heap. `guards` says whether it may get pages of its own. */
HK_INLINE void *serve(alloc_charged_t plain, alloc_hardened_t hardened, size_t align, size_t size, bool charged,
                      bool guards, const void *caller) {
    charged = charged && hk_front != &hk_no_heap;
    heap_t *h = heap_current();
    if (hk_unlikely(h == NULL) && !fork_attend())
        return heap_alloc_stranded(align, size);
    bool due = heap_charge(h, charge_of(size), charged);
    void *apart = guards ? guarded_if_due(h, align, size, caller) : NULL;
    if (hk_unlikely(apart != NULL))
        return heap_sampled_if(due, h, apart, size, caller);
    if (hk_unlikely(hardened_is_on()))
        return pointer_to(heap_sampled_if(due, h, hardened(h, align, size, caller), size, caller));
    void *block = plain(h, align, size);
    return hk_likely(block != NULL) ? heap_sampled_if(due, h, block, size, caller) : heap_fail();
}

HK_INLINE void *malloc_or_fail(size_t size, bool charged, const void *caller) {
    return serve(malloc_charged, hardened_alloc, HK_ALIGNMENT, size, charged, true, caller);
}

/* front/ charges what it looks for in a magazine. */
static HK_NOINLINE void *malloc_rare(size_t size, const void *caller) {
    return malloc_or_fail(size, size - 1 < HK_MAGAZINE_SIZE_MAX, caller);
}

/* Longer blocks, which take a call to look at. */
static HK_NOINLINE void *malloc_mid_hardened(size_t size, const void *caller) {
    heap_front_t *front = hk_front;
    size_t cls;
    lane_t *lane = hardened_lane_mid(front, size, &cls);
    if (hk_unlikely(lane == NULL))
        return malloc_rare(size, caller);
    return pointer_to_slab(hardened_take(lane, cls, size, hk_hardened_level >= 3, false, caller, seal_spots_are_zero));
}

HK_INLINE void *malloc_hardened(size_t size, bool exact, const void *caller, bool is_zero(const void *, size_t)) {
    heap_front_t *front = hk_front;
    size_t cls;
    lane_t *lane = hardened_lane_soon(front, size, &cls);
    if (hk_unlikely(lane == NULL))
        return malloc_mid_hardened(size, caller);
    return pointer_to_slab(hardened_take(lane, cls, size, exact, true, caller, is_zero));
}

static HK_WIDE HK_NOINLINE void *malloc_wide(size_t size, const void *caller) {
    return malloc_hardened(size, false, caller, seal_is_zero_wide);
}

static HK_NOINLINE void *malloc_narrow(size_t size, const void *caller) {
    return malloc_hardened(size, false, caller, seal_is_zero);
}

static HK_NOINLINE void *malloc_exact(size_t size, const void *caller) {
    return malloc_hardened(size, true, caller, seal_is_zero);
}

void *heap_malloc_slow(size_t size) {
    const void *caller = __builtin_return_address(0);
    if (hk_hardened_level == 2)
        return hk_likely(hk_seal_is_wide) ? malloc_wide(size, caller) : malloc_narrow(size, caller);
    return hardened_is_on() ? malloc_exact(size, caller) : malloc_rare(size, caller);
}

HK_COLD void *heap_malloc(size_t size, const void *caller) { return malloc_or_fail(size, false, caller); }

/* Samples and guards know what was asked for; both they and the levels above tell it to the byte. */
HK_COLD void *heap_malloc_roomy(size_t size, size_t room, const void *caller) {
    hk_assert(size > 0 && size <= room && room <= HK_MID_MAX);
    heap_t *h = heap_current();
    if (hk_unlikely(h == NULL || hardened_is_on()))
        return heap_malloc(size, caller);
    bool due = heap_charge(h, size, false);
    void *apart = guarded_if_due(h, HK_ALIGNMENT, size, caller);
    if (hk_unlikely(apart != NULL))
        return heap_sampled_if(due, h, apart, size, caller);
    void *block = limit_is_near() ? NULL : malloc_charged(h, HK_ALIGNMENT, room);
    if (hk_unlikely(block == NULL))
        block = malloc_charged(h, HK_ALIGNMENT, size);
    return hk_likely(block != NULL) ? heap_sampled_if(due, h, block, size, caller) : heap_fail();
}

static void *aligned_charged(heap_t *h, size_t align, size_t size) {
    if (h == NULL && !heap_system_ready())
        return NULL;
    unsigned cls = class_of_aligned(size, align);
    return cls < HK_CLASS_COUNT ? heap_class_alloc(h, cls, align) : heap_big_alloc(h, size, align, NULL);
}

static HK_NOINLINE void *serve_aligned(alloc_charged_t plain, alloc_hardened_t hardened, size_t align, size_t size,
                                       const void *caller) {
    return serve(plain, hardened, align, size, false, true, caller);
}

void *heap_aligned_by(size_t align, size_t size, const void *caller) {
    if (align <= HK_ALIGNMENT)
        return heap_malloc(size, caller);
    return serve_aligned(aligned_charged, hardened_alloc, align, size, caller);
}

void *heap_aligned(size_t align, size_t size) { return heap_aligned_by(align, size, __builtin_return_address(0)); }

/* What was asked for may be less: no block here has guards, as that would be one of the size. */
void *heap_aligned_slow(size_t size) {
    const void *caller = __builtin_return_address(0);
    return serve(aligned_charged, hardened_alloc, size & -size, size, true, false, caller);
}

/* A block straight from a slab, which knows whether it reads as zeros; only when the magazine has none at hand. */
static void *direct_alloc(heap_t *h, unsigned cls, bool *zeroed) {
    hk_assert(cls < HK_CLASS_COUNT);
    *zeroed = false;
    if (heap_magazine_count(h, cls) > 0)
        return magazine_alloc(h, cls);
    void *block = heap_alone_try(h, cls, HK_ALIGNMENT, zeroed);
    if (block != NULL)
        return block;
    block_past_t past = BLOCK_USED;
    block = heap_take_one_or_reclaim(h, cls, &past);
    if (hk_unlikely(block == NULL))
        return heap_take_anywhere(h, cls, HK_ALIGNMENT);
    *zeroed = past == BLOCK_ZEROED;
    return block;
}

/* Of a size that has been charged. */
static void *calloc_charged(heap_t *h, size_t align, size_t size) {
    (void)align; /* as malloc_charged */
    bool zeroed = false;
    void *block;
    if (size > HK_MID_MAX) {
        block = h != NULL && size <= HK_MAGAZINE_SIZE_MAX ? magazine_take_large(h, class_of(size)) : NULL;
        if (block == NULL)
            block = heap_big_alloc(h, size, 1, &zeroed);
    } else if (size < CALLOC_DIRECT_MIN || h == NULL)
        block = heap_class_alloc(h, class_of(size + (size == 0)), HK_ALIGNMENT);
    else
        block = direct_alloc(h, class_of(size), &zeroed);
    return block == NULL || zeroed ? block : memset(block, 0, size);
}

void *heap_calloc_slow(size_t size) {
    const void *caller = __builtin_return_address(0);
    return serve(calloc_charged, hardened_calloc, HK_ALIGNMENT, size, false, true, caller);
}

static void *aligned_calloc_charged(heap_t *h, size_t align, size_t size) {
    if (h == NULL && !heap_system_ready())
        return NULL;
    bool zeroed = false;
    const unsigned cls = class_of_aligned(size, align);
    void *block = cls < HK_CLASS_COUNT ? heap_class_alloc(h, cls, align) : heap_big_alloc(h, size, align, &zeroed);
    return block == NULL || zeroed ? block : memset(block, 0, size);
}

void *heap_aligned_calloc(size_t align, size_t size, const void *caller) {
    hk_assert(align > HK_ALIGNMENT && hk_is_pow2(align));
    return serve_aligned(aligned_calloc_charged, hardened_calloc, align, size, caller);
}
