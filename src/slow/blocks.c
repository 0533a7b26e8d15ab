/* SPDX-License-Identifier: MIT */
#include "slow/blocks.h"

#include "base/bits.h"
#include "core/panic.h"
#include "heap/magazine.h"
#include "heap/slot_cache.h"
#include "heap/supply.h"
#include "large/fence.h"
#include "large/huge.h"
#include "limit/limit.h"
#include "slow/reclaim.h"
#include "start/init.h"
#include "start/start.h"
#include "superslab/superslab.h"
#include "upkeep/life.h"

#include <errno.h>

enum {
    SHARED_SLABS_MAX = 4, /* near a limit, slabs of a heap whose blocks serve smaller classes too */
    LAST_TRIES = 4,       /* of a large block, each after more was unmapped */
};

/* Once a block is larger than the program asked for since memory was out when it was allocated or had to shrink. */
static _Atomic bool kept_whole;

bool heap_has_kept_whole(void) { return hk_unlikely(atomic_load_explicit(&kept_whole, memory_order_relaxed)); }

void *heap_keep_whole(void *block, int saved_errno) {
    atomic_store_explicit(&kept_whole, true, memory_order_relaxed);
    errno = saved_errno;
    return block;
}

size_t heap_block_size(const void *block) {
    const uint32_t entry = map_lookup(block);
    void *start;
    size_t size;
    if (map_is_run(entry))
        return large_open_size(block);
    if (entry != 0)
        return hk_class_info[entry & HK_MAP_CLASS_MAX].block_size;
    return huge_find(block, &start, &size) && start == block ? size : 0;
}

/* --- Large and huge blocks ---------------------------------------------------------------------------------------- */

void heap_untag(heap_t *h, void *block, uint32_t entry) {
    if (entry == HK_MAP_RUN_HEAD)
        return;
    large_tag(block, HK_OWNER_NONE, 0);
    (void)map_clear_live_shared(map_granule(block));
    heap_t *counts = h != NULL ? h : heap_shared();
    heap_lock(counts);
    hk_add(counts->class_stats[entry & HK_MAP_CLASS_MAX].freed_remote, 1);
    heap_unlock(counts);
}

static void *run_try(heap_t *h, size_t size, size_t align, bool *zeroed) {
    if (h == NULL)
        return large_alloc(&heap_shared()->large, size, align, zeroed);
    return slot_cache_alloc(h, size, align, zeroed);
}

static void *big_try(heap_t *h, size_t size, size_t align, bool *zeroed) {
    void *block = NULL;
    if (!limit_allows(size))
        return NULL;
    if (size <= HK_LARGE_MAX && align <= HK_LARGE_MAX)
        block = run_try(h, size, align, zeroed);
    if (block != NULL)
        return block;
    if (zeroed != NULL)
        *zeroed = true;
    return huge_alloc(size, align);
}

/* Memory is out though some lies free in pieces: without them, the block may get a mapping of its own. That changes
 * nothing where our own limit has refused it. Slots that are on their way to the kernel at this moment are waited
 * for. */
static HK_COLD void *big_last_try(heap_t *h, size_t size, size_t align, bool *zeroed) {
    void *block = NULL;
    for (unsigned tries = 0; block == NULL && tries < LAST_TRIES && limit_allows(size); tries++) {
        bool waited = superslab_wait_for_held();
        if (superslab_release_free(size + align) == 0 && !waited)
            return NULL;
        block = big_try(h, size, align, zeroed);
    }
    return block;
}

void *heap_big_alloc(heap_t *h, size_t size, size_t align, bool *zeroed) {
    if (size > HEAP_SIZE_POSSIBLE || (h == NULL && !heap_system_ready()))
        return NULL;
    size = hk_max(size, 1);
    void *block = big_try(h, size, align, zeroed);
    for (unsigned tries = 0; hk_unlikely(block == NULL) && heap_reclaim(tries); tries++)
        block = big_try(h, size, align, zeroed);
    return hk_likely(block != NULL) ? block : big_last_try(h, size, align, zeroed);
}

/* --- Blocks of slabs ---------------------------------------------------------------------------------------------- */

/* For threads that have no heap (any more): a block of the shared heap, under its lock. */
static void *pool_alloc(unsigned cls) {
    if (!heap_system_ready())
        return NULL;
    block_past_t past;
    return heap_take_one(heap_shared(), cls, &past);
}

void *heap_take_one_or_reclaim(heap_t *h, unsigned cls, block_past_t *past) {
    void *block = heap_take_one(h, cls, past);
    for (unsigned tries = 0; hk_unlikely(block == NULL) && heap_reclaim(tries); tries++)
        block = heap_take_one(h, cls, past);
    return block;
}

static void *class_try(heap_t *h, unsigned cls) {
    if (h == NULL)
        return pool_alloc(cls);
    heap_adopt_orphan();
    return magazine_alloc(h, cls);
}

/* Memory is out for a slab of the class. */
static void *take_of_class(heap_t *h, unsigned cls) {
    void *block = h != NULL && heap_magazine_count(h, cls) > 0 ? magazine_alloc(h, cls) : NULL;
    for (uint32_t id = HK_OWNER_SHARED; block == NULL && id < heap_limit(); id++) {
        heap_t *other = heap_by_id(id);
        if (hk_read(other->class_stats[cls].slab_count) > 0)
            block = heap_take_one_there(other, cls);
    }
    return block;
}

void *heap_take_anywhere(heap_t *h, unsigned cls, size_t align) {
    hk_assert(cls < HK_CLASS_COUNT);
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

/* Whether one more block of a class may lie alone, in a run, beside `count` that do. Together they waste up to three
 * quarters of a slab, as what is beyond such a block serves nobody; near a limit they take no more than a slab. */
HK_INLINE bool fits_alone(const size_class_info_t *info, unsigned count, bool near) {
    const size_t slots = (info->block_size + HK_SLOT_SIZE - 1) >> HK_SLOT_SHIFT;
    const size_t beyond = (slots << HK_SLOT_SHIFT) - info->block_size;
    if (near)
        return (count + 1) * slots <= info->slab_slots;
    return count < LARGE_ALONE_MOST && (count + 1) * beyond <= ((size_t)info->slab_slots << HK_SLOT_SHIFT) / 4 * 3;
}

static bool is_without_slabs(const heap_t *h, unsigned cls) {
    return hk_read(h->class_stats[cls].slab_count) == 0 && heap_magazine_count(h, cls) == 0;
}

/* Whether a block of the class lies alone in place of the first slab for several: as long as its thread uses the class
 * rarely, and always near a limit of the kernel's. */
static bool may_be_alone(heap_t *h, unsigned cls) {
    const size_class_info_t *info = &hk_class_info[cls];
    const bool near = region_shares_slabs();
    return (near ? info->slab_slots > 1 : class_is_earned(cls)) && is_without_slabs(h, cls) &&
           fits_alone(info, large_alone_count(&h->large, cls), near) && (near || !magazine_is_earned(h, cls));
}

void *heap_alone_try(heap_t *h, unsigned cls, size_t align, bool *zeroed) {
    hk_assert(h != NULL && cls < HK_CLASS_COUNT);
    size_t size = hk_class_info[cls].block_size;
    if (!may_be_alone(h, cls) || !limit_allows(size))
        return NULL;
    void *block = run_try(h, size, align, zeroed);
    if (block != NULL)
        large_set_alone(&h->large, block, cls);
    return block;
}

bool heap_alone_grow(heap_t *h, void *block, size_t size) {
    const unsigned cls = class_of(size);
    const size_class_info_t *info = &hk_class_info[cls];
    hk_assert(cls < HK_CLASS_COUNT && cls > large_alone_class(block));
    if (h == NULL || large_run(block)->taker != &h->large ||
        !fits_alone(info, large_alone_count(&h->large, cls), region_shares_slabs()))
        return false;
    if (info->block_size > large_size(block) && !slot_cache_extend(h, block, info->block_size))
        return false;
    large_set_alone(&h->large, block, cls);
    /* As if it were a new one, else a program whose blocks all grow asked for nothing but the class they begin with. */
    if (class_is_earned(cls) && is_without_slabs(h, cls))
        (void)magazine_is_earned(h, cls);
    return true;
}

/* Near a limit of the kernel's: a class without a slab takes blocks of the next one of two a doubling, until that one
 * has a few slabs. With slabs of every size in every thread, most of a small limit would be free blocks. */
static unsigned shared_class(const heap_t *h, unsigned cls, size_t align) {
    hk_assert(cls < HK_CLASS_COUNT);
    size_t size = hk_class_info[cls].block_size, top = (size_t)1 << hk_log2_ceil(size), between = top / 4 * 3;
    unsigned shared = class_of(size <= between ? between : top);
    if (hk_class_info[shared].slab_slots > 1 || align > HK_ALIGNMENT || hk_read(h->class_stats[cls].slab_count) > 0 ||
        hk_read(h->class_stats[shared].slab_count) >= SHARED_SLABS_MAX)
        return cls;
    atomic_store_explicit(&kept_whole, true, memory_order_relaxed);
    return shared;
}

static void *class_alloc_try(heap_t *h, unsigned cls, size_t align) {
    void *block = h != NULL ? heap_alone_try(h, cls, align, NULL) : NULL;
    if (block != NULL)
        return block;
    return class_try(h, hk_unlikely(region_shares_slabs()) && h != NULL ? shared_class(h, cls, align) : cls);
}

void *heap_class_alloc(heap_t *h, unsigned cls, size_t align) {
    hk_assert(cls < HK_CLASS_COUNT && hk_class_info[cls].block_size % align == 0);
    void *block = class_alloc_try(h, cls, align);
    for (unsigned tries = 0; hk_unlikely(block == NULL) && heap_reclaim(tries); tries++)
        block = class_alloc_try(h, cls, align);
    return hk_likely(block != NULL) ? block : heap_take_anywhere(h, cls, align);
}
