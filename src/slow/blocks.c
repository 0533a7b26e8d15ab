/* SPDX-License-Identifier: MIT */
#include "slow/blocks.h"

#include "heap/magazine.h"
#include "heap/supply.h"
#include "large/huge.h"
#include "limit/limit.h"
#include "slow/reclaim.h"
#include "slow/tick.h"
#include "start/init.h"
#include "start/start.h"
#include "superslab/superslab.h"
#include "upkeep/life.h"

#include <errno.h>

/* Once a block is larger than the program asked for since memory was out when it was allocated or had to shrink. */
static _Atomic bool kept_whole;

bool heap_has_kept_whole(void) { return hk_unlikely(atomic_load_explicit(&kept_whole, memory_order_relaxed)); }

void *heap_keep_whole(void *block, int saved_errno) {
    atomic_store_explicit(&kept_whole, true, memory_order_relaxed);
    errno = saved_errno;
    return block;
}

/* --- Large and huge blocks ------------------------------------------------------------------------------------------------ */

void heap_untag(heap_t *h, void *block, uint32_t entry) {
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

void *heap_big_alloc(heap_t *h, size_t size, size_t align, bool *zeroed) {
    if (size > HEAP_SIZE_POSSIBLE || (h == NULL && !heap_system_ready()))
        return NULL;
    size = hk_max(size, 1);
    void *block = big_try(h, size, align, zeroed);
    for (unsigned tries = 0; hk_unlikely(block == NULL) && heap_reclaim(tries); tries++)
        block = big_try(h, size, align, zeroed);
    return hk_likely(block != NULL) ? block : big_last_try(h, size, align, zeroed);
}

/* --- Blocks of slabs ------------------------------------------------------------------------------------------------------- */

/* For threads that have no heap (any more): a block of the pool heap, under its lock. */
static void *pool_alloc(unsigned cls) {
    if (!heap_system_ready())
        return NULL;
    block_past_t past;
    return heap_take_one(heap_pool(), cls, &past);
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
    void *block = h != NULL && heap_bin_count(h, cls) > 0 ? magazine_alloc(h, cls) : NULL;
    for (uint32_t id = HK_OWNER_POOL; block == NULL && id < heap_limit(); id++) {
        heap_t *other = heap_by_id(id);
        if (hk_read(other->class_stats[cls].slab_count) > 0)
            block = heap_take_one_there(other, cls);
    }
    return block;
}

void *heap_take_anywhere(heap_t *h, unsigned cls, size_t align) {
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

void *heap_class_alloc(heap_t *h, unsigned cls, size_t align) {
    if (h != NULL)
        heap_tick_if_due(h);
    void *block = hk_unlikely(region_is_near_limit()) ? alone_try(h, cls, align) : NULL;
    if (hk_likely(block == NULL))
        block = class_try(h, cls);
    for (unsigned tries = 0; hk_unlikely(block == NULL) && heap_reclaim(tries); tries++)
        block = class_try(h, cls);
    return hk_likely(block != NULL) ? block : heap_take_anywhere(h, cls, align);
}
