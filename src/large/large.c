/* SPDX-License-Identifier: MIT */
#include "large/large.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/counters.h"
#include "core/options.h"
#include "core/panic.h"
#include "large/fence.h"
#include "large/filling.h"
#include "region/region.h"
#include "superslab/residency.h"
#include "superslab/superslab.h"
#include "sys/sys.h"

#include <string.h>

enum {
    HEADROOM_SHARE = 8,   /* a run that grows by moving gets this part more */
    DENSE_SUPERSLABS = 2, /* a run of so many that a program grows and fills gets huge pages */
    COPIES_A_LOSS = 8,    /* runs that are copied since one whose pages had moved was freed, and its pages lost */
};
#define MOVE_PAGES_MIN HK_MIB
#define COPY_SLOTS_MAX (4 * HK_SLOTS_PER_SUPERSLAB) /* what has less may be copied as it grows */

_Static_assert(sizeof(large_run_t) == 128, "takes the place of a slab record");

static _Atomic unsigned copies_due; /* a hint, so relaxed */

static large_run_t *run_at(slot_t first) {
    hk_assert(first != 0 && first < map_count());
    return (large_run_t *)hk_window.areas[REGION_AREA_SLABS] + first;
}

large_links_t *large_links(slot_t first) { return &run_at(first)->links; }

static size_t slots_for(size_t size) { return (size + HK_SLOT_SIZE - 1) >> HK_SLOT_SHIFT; }

static void run_mark(slot_t first, size_t slot_count) {
    hk_assert(slot_count > 0);
    map_set(first, 1, HK_MAP_RUN_HEAD);
    map_set(first + 1, (unsigned)slot_count - 1, HK_MAP_RUN_BODY);
}

void large_tag(void *block, uint32_t owner, unsigned cls) {
    hk_assert((uintptr_t)block % HK_SLOT_SIZE == 0);
    hk_assert(owner == HK_OWNER_NONE || (cls >= HK_CLASS_COUNT && cls < HK_MAGAZINE_COUNT));
    map_set((slot_t)map_slot(block), 1, owner == HK_OWNER_NONE ? HK_MAP_RUN_HEAD : map_tag(owner) | cls);
}

/* Fresh pages where others were moved to. `*dirty`: these are there still. False when neither are: the kernel may unmap
 * before it refuses, and what is not mapped is lost to us. */
static bool map_anew(char *from, size_t size, bool *dirty) {
    hk_assert(size > 0);
    *dirty = region_map_over(from, size) != 0;
    return !*dirty || sys_is_mapped(from, size);
}

/* Nothing is in the slots any more. Their pages and the pool do not know of it yet. */
static void unmark(slot_t first) {
    hk_assert(atomic_load_explicit(&run_at(first)->state, memory_order_relaxed) == LARGE_HELD);
    map_set(first, run_at(first)->slot_count, 0);
    atomic_store_explicit(&run_at(first)->state, LARGE_FREE, memory_order_relaxed);
}

/* Returns the slots of a run that is not live any more; `dirty` when its pages may be resident. */
static void run_release(slot_t first, bool dirty, bool reuse) {
    hk_assert(run_at(first)->slot_count > 0);
    hk_assert(atomic_load_explicit(&run_at(first)->state, memory_order_relaxed) == LARGE_HELD);
    large_run_t *run = run_at(first);
    size_t count = run->slot_count;
    bool is_mapped = true;
    char *block = map_slot_address(first);
    size_t open = large_unfence(block) ? count : large_open_size(block) >> HK_SLOT_SHIFT; /* what is closed is lost */
    if (run->moved) {
        atomic_store_explicit(&copies_due, COPIES_A_LOSS, memory_order_relaxed);
        is_mapped = map_anew(block, count << HK_SLOT_SHIFT, &dirty);
        run->moved = false;
    }
    unmark(first);
    if (!is_mapped)
        return;
    if (reuse && dirty)
        slots_free_for_reuse(first, open);
    else
        slots_free(first, open, dirty);
}

HK_INLINE void add_to(const large_counts_t *counts, _Atomic uint64_t *sum, uint64_t by) {
    if (hk_likely(counts->of_one_thread))
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + by, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(sum, by, memory_order_relaxed);
}

static void count_taken(large_counts_t *counts, size_t bytes) {
    add_to(counts, &counts->taken_bytes, bytes);
    add_to(counts, &counts->live_bytes, bytes);
}

/* `bytes` of the run were freed, or added when that is negative. Where another heap took the run, both count it. */
static void count_at_taker(large_counts_t *counts, const large_run_t *run, size_t bytes) {
    if (hk_likely(run->taker == counts))
        return;
    add_to(counts, &counts->freed_of_others, bytes);
    atomic_fetch_add_explicit(&run->taker->freed_by_others, bytes, memory_order_relaxed);
}

static void count_freed(large_counts_t *counts, const large_run_t *run, size_t bytes) {
    add_to(counts, &counts->live_bytes, -bytes);
    count_at_taker(counts, run, bytes);
}

static void count_alone(large_counts_t *counts, const large_run_t *run, unsigned cls, uint8_t by) {
    const unsigned i = cls - HK_ALONE_FIRST;
    _Atomic uint8_t *alone = &run->taker->alone[i];
    if (hk_likely(run->taker == counts && counts->of_one_thread))
        atomic_store_explicit(alone, (uint8_t)(atomic_load_explicit(alone, memory_order_relaxed) + by),
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&run->taker->alone_by_others[i], by, memory_order_relaxed);
}

/* Zeros are written where most pages are resident; elsewhere that would make all of them so, and the few go back. */
static void zero_run(slot_t first, size_t count) {
    hk_assert(first != 0 && count > 0);
    for (size_t done = 0, part; done < count; done += part) {
        char *from = map_slot_address(first + (slot_t)done);
        part = hk_min(count - done, HK_SLOTS_PER_SUPERSLAB);
        if (residency_of(from, part << HK_SLOT_SHIFT) != RESIDENCY_FULL)
            sys_purge(from, part << HK_SLOT_SHIFT);
        else
            hk_libc_memset(from, 0, part << HK_SLOT_SHIFT);
    }
}

/* What a caller learns that wants zeros: a short run it may write itself. */
static bool make_zeroed(slot_t first, size_t count, bool zeroed) {
    if (zeroed || count <= HK_SLOTS_PER_SUPERSLAB)
        return zeroed;
    zero_run(first, count);
    return true;
}

/* Makes a live run of slots just taken. */
static char *run_begin(large_counts_t *counts, slots_t got, size_t count, bool fresh) {
    hk_assert(got.first != 0 && count > 0);
    large_run_t *run = run_at(got.first);
    run->slot_count = (uint32_t)count;
    run->moved = false;
    run->fresh = fresh;
    run->taker = counts;
    run->alone = 0;
    run->fenced_bytes = 0;
    run->fenced_before = false;
    atomic_store_explicit(&run->state, LARGE_LIVE, memory_order_release); /* see end_life */
    run_mark(got.first, count);
    count_taken(counts, count << HK_SLOT_SHIFT);
    return map_slot_address(got.first);
}

/* Where a run may move to: its pages come along, so nothing resident is used up for it. */
static char *alloc_target(large_counts_t *counts, size_t count, size_t have) {
    slots_t got = slots_alloc_fresh(count, count - have, false);
    return got.first != 0 ? run_begin(counts, got, count, true) : NULL;
}

void *large_alloc_with_spare(large_counts_t *counts, size_t size, size_t align, bool *zeroed, slots_spare_t *spare) {
    hk_assert(size > 0 && size <= HK_LARGE_MAX && hk_is_pow2(align));
    size_t count = slots_for(size);
    slots_use_t use = filling_expected(count << HK_SLOT_SHIFT) ? SLOTS_DENSE : SLOTS_SPARSE;
    slots_t got = slots_alloc_with_spare(count, hk_max(align >> HK_SLOT_SHIFT, 1), use, spare);
    if (got.first == 0)
        return NULL;
    add_to(counts, &counts->allocs, 1);
    bool fresh = got.zeroed && use == SLOTS_SPARSE;
    char *block = run_begin(counts, got, count, fresh);
    if (fresh)
        filling_remember(block, count << HK_SLOT_SHIFT);
    if (zeroed != NULL)
        *zeroed = make_zeroed(got.first, count, got.zeroed);
    return block;
}

/* Bytes of the run that no block of the class has. */
static size_t beyond(const large_run_t *run, unsigned cls) {
    return ((size_t)run->slot_count << HK_SLOT_SHIFT) - hk_class_info[cls].block_size;
}

/* Returns how many bytes of the run were not counted as long as one block lay alone there. */
static size_t set_not_alone(large_counts_t *counts, large_run_t *run) {
    hk_assert(run->alone <= HK_CLASS_COUNT);
    if (hk_likely(run->alone == 0))
        return 0;
    const unsigned cls = run->alone - 1u;
    run->alone = 0;
    count_alone(counts, run, cls, (uint8_t)-1);
    return beyond(run, cls);
}

void large_set_alone(large_counts_t *counts, void *block, unsigned cls) {
    large_run_t *run = large_run(block);
    hk_assert(cls >= HK_ALONE_FIRST && cls < HK_CLASS_COUNT);
    if (run->alone != 0)
        count_taken(counts, set_not_alone(counts, run));
    hk_assert(run->taker == counts && large_alone_count(counts, cls) < LARGE_ALONE_MOST);
    count_alone(counts, run, cls, 1);
    /* Last: the child of a fork that took no lock may count one block too many, and never less than none. */
    hk_write_release(run->alone, (uint8_t)(cls + 1));
    count_taken(counts, -beyond(run, cls));
}

unsigned large_alone_class(const void *block) {
    const unsigned alone = large_run(block)->alone;
    return alone != 0 ? alone - 1 : HK_CLASS_COUNT;
}

static void count_ended(large_counts_t *counts, large_run_t *run) {
    count_freed(counts, run, ((size_t)run->slot_count << HK_SLOT_SHIFT) - set_not_alone(counts, run));
}

/* False when it was free already. */
static bool end_life(large_counts_t *counts, large_run_t *run) {
    uint32_t live = LARGE_LIVE;
    /* It decides which of two frees counts. What the program did with the block happens before its next use, as the
     * thread that got it free hands it on with release. Acquire pairs with the store of LIVE: who frees a block twice,
     * and comes upon the next run there, finds the record of that. */
    if (!atomic_compare_exchange_strong_explicit(&run->state, &live, LARGE_HELD, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    add_to(counts, &counts->frees, 1);
    count_ended(counts, run);
    return true;
}

bool large_hold(large_counts_t *counts, void *block) { return end_life(counts, large_run(block)); }

void large_let_go(void *block, bool dirty) {
    hk_assert(!large_is_live(block));
    run_release((slot_t)map_slot(block), dirty, true);
}

void large_take_held(large_counts_t *counts, void *block) {
    hk_assert(!large_is_live(block));
    large_run_t *run = large_run(block);
    run->taker = counts;
    count_taken(counts, (size_t)run->slot_count << HK_SLOT_SHIFT);
    add_to(counts, &counts->allocs, 1);
    run->fresh = false;
    atomic_store_explicit(&run->state, LARGE_LIVE, memory_order_release); /* as run_begin */
}

void large_set_slack(void *block, size_t slack) {
    hk_assert(large_is_live(block) && slack <= large_size(block));
    atomic_store_explicit(&large_run(block)->slack, slack, memory_order_relaxed);
}

static bool finish(large_counts_t *counts, void *block) {
    large_run_t *run = large_run(block);
    if (!end_life(counts, run))
        return false;
    if (run->fresh)
        filling_observe(block, large_size(block));
    return true;
}

bool large_free(large_counts_t *counts, void *block, bool reuse) {
    if (!finish(counts, block))
        return false;
    run_release((slot_t)map_slot(block), true, reuse);
    return true;
}

void *large_begin(large_counts_t *counts, slot_t first, size_t slot_count) {
    add_to(counts, &counts->allocs, 1);
    return run_begin(counts, (slots_t){.first = first}, slot_count, false);
}

bool large_end(large_counts_t *counts, void *block) {
    if (!finish(counts, block))
        return false;
    unmark((slot_t)map_slot(block));
    return true;
}

HK_SNAPSHOT size_t large_size(const void *block) { return (size_t)large_run(block)->slot_count << HK_SLOT_SHIFT; }

HK_SNAPSHOT bool large_is_live(const void *block) {
    return atomic_load_explicit(&large_run(block)->state, memory_order_relaxed) == LARGE_LIVE;
}

HK_SNAPSHOT void *large_start(const void *address) {
    size_t slot = map_slot(address);
    while (map_entry(slot) == HK_MAP_RUN_BODY)
        slot--;
    return map_slot_address((slot_t)slot);
}

static void shrink(large_counts_t *counts, slot_t first, size_t count) {
    hk_assert(count > 0 && count < run_at(first)->slot_count);
    large_run_t *run = run_at(first);
    size_t extra = run->slot_count - count;
    bool dirty = true, is_mapped = true;
    if (run->moved)
        is_mapped = map_anew(map_slot_address(first + (slot_t)count), extra << HK_SLOT_SHIFT, &dirty);
    run->slot_count = (uint32_t)count;
    map_set(first + (slot_t)count, (unsigned)extra, 0);
    if (is_mapped)
        slots_free(first + (slot_t)count, extra, dirty);
    count_freed(counts, run, extra << HK_SLOT_SHIFT);
}

void large_extend(large_counts_t *counts, void *block, size_t extra, bool zeroed) {
    const slot_t first = (slot_t)map_slot(block);
    large_run_t *run = run_at(first);
    hk_assert(large_is_live(block) && extra > 0 && !run->moved);
    const size_t extra_bytes = (extra << HK_SLOT_SHIFT) + set_not_alone(counts, run);
    run->fresh = run->fresh && zeroed;
    map_set(first + run->slot_count, (unsigned)extra, HK_MAP_RUN_BODY);
    run->slot_count += (uint32_t)extra;
    count_taken(counts, extra_bytes);
    count_at_taker(counts, run, -extra_bytes);
}

static bool grow_in_place(large_counts_t *counts, slot_t first, size_t count) {
    const size_t have = run_at(first)->slot_count;
    bool zeroed;
    hk_assert(count > have);
    if (!slots_alloc_at(first + (slot_t)have, count - have, &zeroed))
        return false;
    large_extend(counts, map_slot_address(first), count - have, zeroed);
    return true;
}

/* A run that the pages of another did not come to, as a process at its limit of mappings finds. */
static void give_target_back(large_counts_t *counts, char *to) {
    size_t size = large_size(to);
    bool dirty;
    if (map_anew(to, size, &dirty)) {
        add_to(counts, &counts->allocs, 1); /* as it is a free */
        (void)large_free(counts, to, true);
        return;
    }
    atomic_store_explicit(&large_run(to)->state, LARGE_FREE, memory_order_relaxed);
    map_set((slot_t)map_slot(to), (unsigned)(size >> HK_SLOT_SHIFT), 0);
    count_ended(counts, large_run(to));
}

/* The old range of a moved run is unmapped: it is mapped anew and its slots returned. Should somebody else have mapped
 * something there meanwhile, or memory be out, they are lost to us. */
static void release_moved(slot_t first, size_t count) {
    map_set(first, (unsigned)count, 0);
    if (region_map_at(map_slot_address(first), count << HK_SLOT_SHIFT) == 0)
        slots_free(first, count, false);
}

/* Whether a program that grows the run to `size` bytes fills it: a superslab's worth at three quarters of it is
 * resident, or it has filled such runs before. */
static bool is_filled(slot_t first, size_t size) {
    size_t count = run_at(first)->slot_count;
    if (hk_option(HK_OPT_HUGE) == HK_HUGE_OFF)
        return false;
    if (count < DENSE_SUPERSLABS * HK_SLOTS_PER_SUPERSLAB)
        return filling_expected(size);
    slot_t look = first + (slot_t)(count * 3 / 4 - HK_SLOTS_PER_SUPERSLAB);
    return residency_of(map_slot_address(look), HK_SUPERSLAB_SIZE) == RESIDENCY_FULL;
}

static void *grow_by_moving(large_counts_t *counts, slot_t first, size_t count, bool filled) {
    large_run_t *run = run_at(first);
    size_t old_size = (size_t)run->slot_count << HK_SLOT_SHIFT;
    char *to = alloc_target(counts, count + count / HEADROOM_SHARE, run->slot_count);
    if (to == NULL)
        to = alloc_target(counts, count, run->slot_count);
    if (to == NULL)
        return NULL;
    if (sys_move_grow(map_slot_address(first), old_size, to, large_size(to)) != 0) {
        give_target_back(counts, to);
        return NULL;
    }
    large_run(to)->moved = true;
    large_run(to)->fresh = run->fresh;
    if (filled)
        (void)sys_advise_huge(to, large_size(to));
    count_ended(counts, run);
    atomic_store_explicit(&run->state, LARGE_FREE, memory_order_relaxed);
    run->moved = false;
    release_moved(first, run->slot_count);
    return to;
}

static void *grow_by_copying(large_counts_t *counts, slot_t first, slots_t to, size_t count) {
    const size_t have = run_at(first)->slot_count;
    hk_assert(count > have);
    if (to.first == 0)
        return NULL;
    char *block = run_begin(counts, to, count, false);
    hk_libc_memcpy(block, map_slot_address(first), have << HK_SLOT_SHIFT);
    add_to(counts, &counts->allocs, 1); /* as it is a free */
    (void)large_free(counts, map_slot_address(first), true);
    return block;
}

/* Whether dirty slots are resident: a program may have touched few of their pages. */
static bool are_resident(slot_t first, size_t count) {
    size_t size = hk_min(count << HK_SLOT_SHIFT, HK_SUPERSLAB_SIZE);
    return residency_of(map_slot_address(first), size) == RESIDENCY_FULL;
}

static slots_t alloc_resident(size_t count, size_t least_room) {
    slots_t got = slots_alloc_dirty(count, least_room);
    if (got.first == 0 || are_resident(got.first, count))
        return got;
    slots_free_for_reuse(got.first, count);
    return (slots_t){0};
}

/* Whether a run of small pages is long enough for huge ones, and filled. */
static bool earns_huge(slot_t first, size_t count) {
    const large_run_t *run = run_at(first);
    return !run->moved && run->slot_count >= DENSE_SUPERSLABS * HK_SLOTS_PER_SUPERSLAB &&
           !superslab_view(first / HK_SLOTS_PER_SUPERSLAB).huge && is_filled(first, count << HK_SLOT_SHIFT);
}

/* True for a few runs after one whose pages had moved was freed: these went with it, and would be here now. */
static bool copy_is_due(void) {
    unsigned due = atomic_load_explicit(&copies_due, memory_order_relaxed);
    if (due > 0)
        atomic_store_explicit(&copies_due, due - 1, memory_order_relaxed);
    return due > 0;
}

/* Whether what the program has at the end of a run is resident: of what it never touched, a copy would be. */
static bool is_worth_a_copy(slot_t first) {
    const size_t have = run_at(first)->slot_count, look = hk_min(have, HK_SLOTS_PER_SUPERSLAB);
    return are_resident(first + (slot_t)(have - look), look);
}

/* A copy among resident slots; a long run wants room there, so that it is not copied again soon. A short one that is
 * filled is copied to huge pages, if it does not lie in such. */
static void *grow_elsewhere(large_counts_t *counts, slot_t first, size_t count) {
    const bool is_short = run_at(first)->slot_count < COPY_SLOTS_MAX;
    void *copy = grow_by_copying(counts, first, alloc_resident(count, is_short ? count : 2 * count), count);
    if (copy == NULL && is_short && earns_huge(first, count))
        copy = grow_by_copying(counts, first, slots_alloc_fresh(count, count, true), count);
    return copy;
}

/* What is resident serves first, behind the run or elsewhere; then what lies behind it; then its pages move. */
static void *grow(large_counts_t *counts, slot_t first, size_t count, bool may_copy) {
    const size_t have = run_at(first)->slot_count;
    const slot_t end = first + (slot_t)have;
    const bool can_stay = !run_at(first)->moved;
    hk_assert(count > have);
    if (can_stay && slots_are_dirty(end, count - have) && are_resident(end, count - have) &&
        grow_in_place(counts, first, count))
        return map_slot_address(first);
    const bool copies = may_copy && is_worth_a_copy(first);
    void *copy = copies ? grow_elsewhere(counts, first, count) : NULL;
    if (copy == NULL && can_stay && grow_in_place(counts, first, count))
        return map_slot_address(first);
    if (copy == NULL && copies && have < COPY_SLOTS_MAX && copy_is_due())
        copy = grow_by_copying(counts, first, slots_alloc_fresh(count, count, false), count);
    if (copy != NULL)
        return copy;
    bool can_move = have << HK_SLOT_SHIFT >= MOVE_PAGES_MIN && (!can_stay || slots_alike(first, have));
    return can_move ? grow_by_moving(counts, first, count, is_filled(first, count << HK_SLOT_SHIFT)) : NULL;
}

void large_shrink(large_counts_t *counts, void *block, size_t size) {
    hk_assert(large_is_live(block));
    slot_t first = (slot_t)map_slot(block);
    if (large_unfence(block) && slots_for(size) < run_at(first)->slot_count)
        shrink(counts, first, slots_for(size));
}

bool large_resize_here(large_counts_t *counts, void *block, size_t size) {
    hk_assert(large_is_live(block));
    if (!large_unfence(block))
        return false;
    slot_t first = (slot_t)map_slot(block);
    size_t count = slots_for(size), have = run_at(first)->slot_count;
    if (count > have)
        return !run_at(first)->moved && grow_in_place(counts, first, count);
    /* What growth took ahead stays for the next steps. */
    if (have - count > have / HEADROOM_SHARE)
        shrink(counts, first, count);
    return true;
}

void *large_resize(large_counts_t *counts, void *block, size_t size, bool may_copy) {
    hk_assert(large_is_live(block));
    if (!large_unfence(block))
        return NULL;
    slot_t first = (slot_t)map_slot(block);
    size_t count = slots_for(size), have = run_at(first)->slot_count;
    if (count <= have && large_resize_here(counts, block, size))
        return block;
    return grow(counts, first, count, may_copy);
}
