/* SPDX-License-Identifier: MIT
 *
 * inspect.c: looking at the whole heap: statistics, verification, what an address is.
 */
#include "base/bits.h"
#include "base/relaxed.h"
#include "core/counters.h"
#include "core/panic.h"
#include "core/print.h"
#include "heap/account.h"
#include "heap/hardened.h"
#include "heap/heap.h"
#include "heap/heap_api.h"
#include "heap/life.h"
#include "heap/limit.h"
#include "heap/messages.h"
#include "heap/record.h"
#include "large/huge.h"
#include "superslab/superslab.h"
#include "sys/sys.h"

#include <string.h>

/* --- Statistics ------------------------------------------------------------------------------------------------------ */

typedef struct sums {
    uint64_t large_live, lock_takes;
    uint64_t large_pops, large_pushes, large_in_magazines; /* of large classes: past the run cache's counters */
} sums_t;

static void add_class_locked(const heap_t *h, unsigned cls, hak_class_stats_t *out) {
    const heap_class_stats_t *stats = &h->class_stats[cls];
    /* Pushes last: those of this moment then look like allocations too, and no count is below 0. */
    uint64_t count = heap_bin_count(h, cls), pops = heap_pops(h, cls, count);
    uint64_t pushes = count + pops + stats->flushed - stats->refilled;
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
    for (unsigned cls = HK_CLASS_COUNT; cls < HK_BIN_COUNT; cls++)
        add_large_class_locked(h, cls, sums);
    sums->lock_takes += h->lock_takes;
    hk_unlock(&h->lock);
    hk_lock(&h->large.lock);
    sums->large_live += (uint64_t)h->large.live_bytes;
    hk_unlock(&h->large.lock);
}

static void fill_events(hak_stats_t *stats) {
#define HK_COUNTER(name) stats->name = atomic_load_explicit(&hk_counters.name, memory_order_relaxed);
    HK_COUNTERS(HK_COUNTER)
#undef HK_COUNTER
    stats->lock_waits = atomic_load_explicit(&hk_lock_wait_count, memory_order_relaxed);
    stats->errors = hk_misuse_count();
    stats->heaps_now = heap_live_count();
    stats->limit_soft = limit_soft() == SIZE_MAX ? 0 : limit_soft();
    stats->limit_hard = limit_hard() == SIZE_MAX ? 0 : limit_hard();
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
    }
}

/* Blocks that are not free in their slab, or in the pool, are live or in a magazine; what of them is resident is known for
 * both together, and shared out by their bytes. Returns what the live ones have resident. */
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
    uint64_t live = 0;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        const hak_class_stats_t *c = &stats->classes[cls];
        live += split_used(stats, c->live_blocks * c->block_size, c->cached_blocks * c->block_size,
                           account.blocks_used[cls]);
    }
    uint64_t in_blocks = live + stats->cached;
    live += account.huge;
    live += split_used(stats, sums->large_live - sums->large_in_magazines, sums->large_in_magazines, account.runs_live);
    stats->cached += account.runs_cached;
    stats->fragmented = account.slabs > in_blocks ? account.slabs - in_blocks : 0;
    stats->retained = account.retained;
    stats->metadata = account.metadata;
    stats->huge_page_waste = account.huge_page_waste;
    live = hk_min(live, stats->live);
    stats->untouched = stats->live - live;
    stats->resident = live + stats->cached + stats->fragmented + stats->retained + stats->metadata;
}

void hk_snapshot(hak_stats_t *stats) {
    uint32_t struct_size = stats->struct_size;
    memset(stats, 0, sizeof *stats);
    stats->struct_size = struct_size;
    if (!heap_system_ready())
        return;
    heap_t *self = heap_current();
    if (self != NULL)
        heap_remote_post_all(self);
    sums_t sums = {0};
    hk_lock(&hk_record_lock);
    for (uint32_t id = HK_OWNER_POOL; id < heap_limit(); id++)
        add_heap(heap_by_id(id), stats, &sums);
    hk_unlock(&hk_record_lock);
    fill_events(stats);
    fill_classes(stats);
    stats->live += sums.large_live - sums.large_in_magazines + huge_bytes();
    stats->large_allocs += sums.large_pops;
    stats->large_frees += sums.large_pushes;
    stats->large_cache_hits += sums.large_pops;
    fill_resident(stats, &sums);
    stats->lock_takes = sums.lock_takes;
    stats->superslabs_now = superslab_totals().superslab_count;
    stats->mapped = region_claimed_bytes() + region_area_bytes() + huge_bytes();
    stats->peak_mapped = hk_max(stats->mapped, region_peak_bytes() + region_area_bytes() + huge_bytes());
}

size_t hk_trim_all(void) { return heap_system_ready() ? heap_trim_all() : 0; }

/* --- Verification -------------------------------------------------------------------------------------------------------- */

/* Where an empty slab is looked for. */
static bool is_spare_locked(const heap_t *h, const slab_t *slab) {
    bool first = slab->previous == 0 || slab_at(slab->previous)->bin == HEAP_BIN_EMPTY;
    return slab->bin == HEAP_BIN_EMPTY && first && (h->spares[slab->cls / 64] >> slab->cls % 64 & 1) != 0;
}

static size_t check_list_locked(const heap_t *h, slot_t at, uint8_t list, unsigned cls, unsigned bin) {
    size_t bad = 0;
    slot_t previous = 0;
    for (; at != 0; previous = at, at = slab_at(at)->next) {
        const slab_t *slab = slab_at(at);
        bool wrong = slab->list != list || slab->previous != previous ||
                     (list == SLAB_LIST_FULL) != (slab->free_count == 0) ||
                     (list == SLAB_LIST_PARTIAL && (slab->cls != cls || hk_min(slab->bin, HEAP_BINS - 1) != bin)) ||
                     (list == SLAB_LIST_PARTIAL && slab_is_empty(slab) && !is_spare_locked(h, slab)) ||
                     (slab->free_count >= slab->settle_at && !slab_is_empty(slab)) ||
                     atomic_load_explicit(&slab->owner, memory_order_relaxed) != h->front.id;
        if (wrong)
            hk_message("check: heap %u: slab at %p is in the wrong list", h->front.id, (void *)slab_base(slab));
        bad += wrong + slab_check(slab);
    }
    return bad;
}

static size_t check_heap(heap_t *h) {
    size_t bad = 0;
    hk_lock(&h->lock);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        for (unsigned bin = 0; bin < HEAP_BINS; bin++)
            bad += check_list_locked(h, h->class_stats[cls].partial[bin], SLAB_LIST_PARTIAL, cls, bin);
    bad += check_list_locked(h, h->full, SLAB_LIST_FULL, 0, 0);
    hk_unlock(&h->lock);
    return bad;
}

size_t hk_check_all(void) {
    if (!heap_system_ready())
        return 0;
    size_t bad = superslab_check();
    for (uint32_t id = HK_OWNER_POOL; id < heap_limit(); id++)
        bad += check_heap(heap_by_id(id));
    return bad;
}

/* --- Is a block free? ------------------------------------------------------------------------------------------------ */

static HK_SNAPSHOT bool is_in_magazine(const heap_t *h, const void *block, unsigned cls) {
    granule_t wanted = map_granule(block);
    if (hk_read(h->front.bins[cls].top) == wanted)
        return true;
    /* Acquire: pairs with the releases in bin_push and magazine.c, so that what counts is in the array that is read, and no block that lay
     * there before is found. Arrays of magazines are never unmapped: a stale one is read in vain, not in error. */
    granule_t *below = hk_read_acquire(h->front.bins[cls].below), *array = hk_read(h->class_stats[cls].array);
    size_t count = below == NULL || array == NULL ? 0 : (size_t)(below - array + 1);
    for (size_t i = 1; i < count && count <= hk_class_info[cls].magazine_max; i++)
        if (hk_read(array[i]) == wanted)
            return true;
    return false;
}

static HK_SNAPSHOT bool is_in_remote_table(heap_t *h, const remote_entry_t *word) {
    const remote_entry_t *entry = heap_remote_entry(h, word->key);
    if (hk_read_acquire(entry->key) != word->key)
        return false;
    uint64_t bits = hk_read_acquire(entry->bits);
    /* The bits are of this key if the key is still there. */
    return (bits & word->bits) != 0 && __atomic_load_n(&entry->key, __ATOMIC_RELAXED) == word->key;
}

static bool is_free_in_slab(const void *block, unsigned cls) {
    return cls < HK_CLASS_COUNT && slab_block_is_free(slab_of(block, cls), class_block_index(&hk_classes[cls], block));
}

/* Freed by a thread other than its owner's, and not home yet. The pool gets messages too. */
static HK_SNAPSHOT bool is_on_its_way(const void *block, unsigned cls) {
    const remote_entry_t word = heap_remote_word(block, cls);
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++)
        if (is_in_remote_table(heap_by_id(id), &word) || messages_hold_out(heap_by_id(id), &word))
            return true;
    for (uint32_t id = HK_OWNER_POOL; id < heap_limit(); id++)
        if (messages_hold_in(heap_by_id(id), &word))
            return true;
    return false;
}

/* Looks at our own records only, and takes no lock. In the order in which a block goes from one place to the next, as it may do so
 * meanwhile. */
static HK_SNAPSHOT bool seems_free(const void *block, unsigned cls) {
    if (is_free_in_slab(block, cls))
        return true;
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++)
        if (is_in_magazine(heap_by_id(id), block, cls))
            return true;
    return cls < HK_CLASS_COUNT && (is_on_its_way(block, cls) || is_free_in_slab(block, cls));
}

/* Looks twice: a place that is filled anew while it is looked at may show what lay there before, or the word of one message with the
 * bits of the next. */
static bool is_block_free(const void *block, unsigned cls) { return seems_free(block, cls) && seems_free(block, cls); }

/* Hardened heaps keep freed blocks in queues besides, and change live bits by atomic operations alone: a clear one is proof. */
bool heap_block_is_free(const void *block, unsigned cls) { return hardened_is_on() || is_block_free(block, cls); }

/* --- What an address is --------------------------------------------------------------------------------------------------- */

static HK_SNAPSHOT void describe_slab(const void *ptr, uint32_t entry, hk_description_t *out) {
    unsigned cls = entry & HK_MAP_CLASS_MAX;
    const slab_t *slab = slab_of(ptr, cls);
    unsigned index = class_block_index(&hk_classes[cls], ptr), last = hk_class_info[cls].block_count - 1u;
    out->where = index > last ? HK_WHERE_SLAB_TAIL : HK_WHERE_BLOCK;
    index = index > last ? last : index;
    out->block_size = hk_class_info[cls].block_size;
    out->block = slab_base(slab) + index * out->block_size;
    out->owner = entry >> 8;
    out->is_free = is_block_free(out->block, cls);
}

static HK_SNAPSHOT void describe_large(const void *ptr, hk_description_t *out) {
    out->where = HK_WHERE_LARGE;
    out->block = large_start(ptr);
    out->block_size = large_size(out->block);
    uint32_t entry = map_lookup(out->block);
    bool tagged = entry != HK_MAP_RUN_HEAD && entry != 0;
    out->is_free = !large_is_live(out->block) || (tagged && is_block_free(out->block, entry & HK_MAP_CLASS_MAX));
}

static bool describe_outside(const void *ptr, hk_description_t *out) {
    void *start;
    size_t size;
    /* First: in a window that the kernel chose, others may have mapped where our records could come one day. */
    if (huge_find_try(ptr, &start, &size)) {
        out->where = HK_WHERE_HUGE;
        out->block = start;
        out->block_size = size;
        return true;
    }
    if (!region_area_has(ptr))
        return false;
    out->where = HK_WHERE_METADATA;
    return true;
}

bool hk_describe(const void *ptr, hk_description_t *out) {
    *out = (hk_description_t){.where = HK_WHERE_NOT_OURS};
    size_t slot = map_slot(ptr);
    uint32_t entry = slot < map_count() ? map_entry(slot) : 0;
    if (map_is_run(entry))
        describe_large(ptr, out);
    else if (entry != 0)
        describe_slab(ptr, entry, out);
    else if (slot < map_count())
        out->where = HK_WHERE_FREE_SLOT;
    else if (!describe_outside(ptr, out))
        return false;
    if (out->block != NULL)
        out->offset = (size_t)((uintptr_t)ptr - (uintptr_t)out->block);
    return true;
}

bool hk_owns(const void *ptr) {
    hk_description_t found;
    void *start;
    size_t size;
    if (!hk_describe(ptr, &found) || found.where == HK_WHERE_METADATA)
        return huge_find(ptr, &start, &size); /* hk_describe does not wait for the registry */
    return found.block != NULL && !found.is_free && found.where != HK_WHERE_SLAB_TAIL;
}
