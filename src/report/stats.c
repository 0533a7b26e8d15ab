/* SPDX-License-Identifier: MIT */
#include "report/stats.h"

#include "base/relaxed.h"
#include "core/counters.h"
#include "core/panic.h"
#include "heap/explicit.h"
#include "heap/lane.h"
#include "heap/remote.h"
#include "heap/slot_cache.h"
#include "large/huge.h"
#include "limit/limit.h"
#include "region/region.h"
#include "report/account.h"
#include "start/start.h"
#include "superslab/superslab.h"
#include "sys/sys.h"
#include "upkeep/life.h"
#include "upkeep/record.h"

#include <string.h>

typedef struct sums {
    int64_t large_live; /* with what is in magazines */
    uint64_t lock_takes;
    uint64_t large_pops, large_pushes, large_in_magazines; /* of large classes: past the counters of runs */
} sums_t;

static void add_class_locked(const heap_t *h, unsigned cls, hak_class_stats_t *out) {
    hk_assert(hk_lock_is_held(&h->lock));
    const heap_class_stats_t *stats = &h->class_stats[cls];
    /* Pushes last: those of this moment then look like allocations too, and no count is below 0. */
    uint64_t count = heap_magazine_count(h, cls) + lane_count(h, cls), pops = heap_pops(h, cls, count);
    uint64_t pushes = count + pops + hk_read(stats->flushed) - hk_read(stats->refilled);
    out->alloc_count += pops;
    /* The thread counts a block that it keeps after its push, but the two may be seen in another order. */
    out->free_local += pushes - hk_min(hk_read(stats->kept), pushes);
    out->free_remote += hk_read(stats->freed_remote);
    out->refill_count += stats->refills;
    out->flush_count += stats->flushes;
    out->cached_blocks += count;
    out->slab_count += stats->slab_count;
}

static void add_large_class_locked(const heap_t *h, unsigned cls, sums_t *sums) {
    hk_assert(hk_lock_is_held(&h->lock));
    hak_class_stats_t c = {0};
    add_class_locked(h, cls, &c);
    sums->large_pops += c.alloc_count - h->class_stats[cls].refilled;
    sums->large_pushes += c.free_local - h->class_stats[cls].flushed;
    sums->large_in_magazines += c.cached_blocks * ((uint64_t)hk_class_info[cls].slab_slots << HK_SLOT_SHIFT);
}

static void add_heap(heap_t *h, hak_stats_t *stats, sums_t *sums) {
    hk_lock(&h->lock);
    heap_drain_locked(h);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        add_class_locked(h, cls, &stats->classes[cls]);
    for (unsigned cls = HK_CLASS_COUNT; cls < HK_MAGAZINE_COUNT; cls++)
        add_large_class_locked(h, cls, sums);
    sums->lock_takes += h->lock_takes;
    hk_unlock(&h->lock);
    sums->large_live += (int64_t)atomic_load_explicit(&h->large.live_bytes, memory_order_relaxed);
    stats->large_allocs += atomic_load_explicit(&h->large.allocs, memory_order_relaxed);
    stats->large_frees += atomic_load_explicit(&h->large.frees, memory_order_relaxed);
}

/* Who frees a block of one of these does not count it: what is not live any more was freed. */
static void add_explicit(heap_t *h, hak_stats_t *stats, sums_t *sums) {
    explicit_counts_t counts;
    hk_lock(&h->lock);
    explicit_count_locked(h, &counts);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        if ((h->own.classes[cls / 64] >> (cls % 64) & 1) == 0)
            continue;
        stats->classes[cls].alloc_count += counts.allocs[cls];
        stats->classes[cls].free_remote += counts.allocs[cls] - counts.live[cls];
        stats->classes[cls].cached_blocks += counts.leased[cls];
        stats->classes[cls].slab_count += h->class_stats[cls].slab_count;
    }
    sums->lock_takes += h->lock_takes;
    hk_unlock(&h->lock);
}

static void fill_events(hak_stats_t *stats) {
#define HK_COUNTER(name) stats->name = atomic_load_explicit(&hk_counters.name, memory_order_relaxed);
    HK_COUNTERS(HK_COUNTER)
#undef HK_COUNTER
    stats->lock_waits = atomic_load_explicit(&hk_lock_wait_count, memory_order_relaxed);
    stats->errors = hk_misuse_count();
    stats->heaps_now = heap_live_count();
    const limits_t limits = limit_in_force();
    stats->limit_soft = limits.soft == SIZE_MAX ? 0 : limits.soft;
    stats->limit_hard = limits.hard == SIZE_MAX ? 0 : limits.hard;
}

static void fill_classes(hak_stats_t *stats) {
    stats->class_count = HK_CLASS_COUNT;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        hak_class_stats_t *c = &stats->classes[cls];
        c->block_size = hk_class_info[cls].block_size;
        uint64_t freed = c->free_local + c->free_remote;
        c->live_blocks = c->alloc_count > freed ? c->alloc_count - freed : 0;
        stats->remote_frees += c->free_remote;
        stats->live += c->live_blocks * c->block_size;
        stats->cached += c->cached_blocks * c->block_size;
    }
}

/* Blocks that are not free in their slab, or in the shared heap, are live or in a magazine; what of them is resident is
 * known for both together, and shared out by their bytes. Returns what the live ones have resident. */
static uint64_t split_used(hak_stats_t *stats, uint64_t live, uint64_t cached, uint64_t used) {
    used = hk_min(used, live + cached);
    uint64_t cached_part = live + cached == 0 ? 0 : (uint64_t)((double)used * (double)cached / (double)(live + cached));
    stats->cached += cached_part;
    return used - cached_part;
}

/* Splits what is resident. `live` is complete. */
static void fill_resident(hak_stats_t *stats, const sums_t *sums) {
    account_t account;
    heap_account(&account);
    uint64_t live = stats->cached = 0;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        const hak_class_stats_t *c = &stats->classes[cls];
        live += split_used(stats, c->live_blocks * c->block_size, c->cached_blocks * c->block_size,
                           account.blocks_used[cls]);
    }
    uint64_t in_blocks = live + stats->cached;
    live += account.huge;
    live += split_used(stats, (uint64_t)sums->large_live - sums->large_in_magazines, sums->large_in_magazines,
                       account.runs_live);
    const uint64_t kept = hk_min(slot_caches_bytes(), account.retained); /* to the pool they are taken */
    stats->cached += account.runs_cached + kept;
    stats->fragmented = account.slabs > in_blocks ? account.slabs - in_blocks : 0;
    stats->retained = account.retained - kept;
    stats->metadata = account.metadata;
    stats->huge_page_waste = account.huge_page_waste;
    live = hk_min(live, stats->live);
    stats->untouched = stats->live - live;
    stats->resident = live + stats->cached + stats->fragmented + stats->retained + stats->metadata;
}

/* Adds up all heaps. False where there are none. */
static bool fill_counts(hak_stats_t *stats, sums_t *sums) {
    uint32_t struct_size = stats->struct_size;
    memset(stats, 0, sizeof *stats);
    stats->struct_size = struct_size;
    if (!heap_system_ready())
        return false;
    heap_t *self = sys_helper_own() == NULL ? heap_current() : NULL; /* a thread of ours has none */
    if (self != NULL)
        heap_remote_post_all(self);
    hk_lock(&hk_record_lock);
    for (uint32_t id = HK_OWNER_SHARED; id < heap_limit(); id++)
        add_heap(heap_by_id(id), stats, sums);
    for (uint32_t id = HK_OWNER_EXPLICIT; id < heap_explicit_limit(); id++)
        add_explicit(heap_by_id(id), stats, sums);
    hk_unlock(&hk_record_lock);
    fill_events(stats);
    fill_classes(stats);
    /* Of a block that one thread allocates and another frees meanwhile, the sum may have the free alone. */
    if (sums->large_live < (int64_t)sums->large_in_magazines)
        sums->large_live = (int64_t)sums->large_in_magazines;
    stats->live += (uint64_t)sums->large_live - sums->large_in_magazines + huge_bytes();
    stats->large_allocs += sums->large_pops;
    stats->large_frees += sums->large_pushes;
    stats->large_cache_hits += sums->large_pops;
    stats->lock_takes = sums->lock_takes;
    return true;
}

/* What the pool and the window know. */
static void fill_space(hak_stats_t *stats) {
    stats->superslabs_now = pool_count(&hk_pool.superslabs);
    stats->mapped = region_claimed_bytes() + region_area_bytes() + huge_bytes();
    stats->peak_mapped = hk_max(stats->mapped, region_peak_bytes() + region_area_bytes());
}

/* Splits what is taken from the pool or dirty, touched or not. */
static void fill_free(hak_stats_t *stats, const sums_t *sums) {
    stats->cached += sums->large_in_magazines;
    stats->retained = superslab_dirty_bytes();
    const uint64_t taken = superslab_taken_bytes() + huge_bytes();
    const uint64_t known = stats->live + stats->cached + stats->retained;
    stats->fragmented = taken > known ? taken - known : 0;
}

void hk_snapshot(hak_stats_t *stats, bool with_residency) {
    sums_t sums = {0};
    if (!fill_counts(stats, &sums))
        return;
    if (with_residency)
        fill_resident(stats, &sums);
    else
        fill_free(stats, &sums);
    fill_space(stats);
}

/* --- One thread --------------------------------------------------------------------------------------------------- */

static size_t magazine_block_bytes(unsigned cls) {
    const size_class_info_t *info = &hk_class_info[cls];
    return cls < HK_CLASS_COUNT ? info->block_size : (size_t)info->slab_slots << HK_SLOT_SHIFT;
}

/* The runs that came into a large class's magazine, and left it, are counted as runs. */
static void add_thread_class_locked(const heap_t *h, unsigned cls, uint64_t *allocated, uint64_t *freed) {
    hak_class_stats_t c = {0};
    add_class_locked(h, cls, &c);
    uint64_t in = c.alloc_count, out = c.free_local + c.free_remote;
    if (cls >= HK_CLASS_COUNT) { /* but for the magazine's own, these are counted as runs */
        in -= hk_read(h->class_stats[cls].refilled);
        out = c.free_local - hk_read(h->class_stats[cls].flushed);
    }
    *allocated += in * magazine_block_bytes(cls);
    *freed += out * magazine_block_bytes(cls);
}

bool hk_thread_snapshot(uint64_t *allocated, uint64_t *freed) {
    *allocated = *freed = 0;
    if (!heap_system_ready())
        return false;
    heap_t *h = heap_current();
    if (h == NULL)
        return true;
    heap_lock(h);
    for (unsigned cls = 0; cls < HK_MAGAZINE_COUNT; cls++)
        add_thread_class_locked(h, cls, allocated, freed);
    heap_unlock(h);
    uint64_t taken = atomic_load_explicit(&h->large.taken_bytes, memory_order_relaxed);
    *allocated += taken;
    *freed += taken - atomic_load_explicit(&h->large.live_bytes, memory_order_relaxed);
    return true;
}
