/* SPDX-License-Identifier: MIT */
#include "superslab/runs.h"

#include "core/counters.h"
#include "core/events.h"
#include "core/options.h"
#include "core/panic.h"
#include "superslab/bins.h"
#include "superslab/dirty.h"
#include "superslab/huge_pages.h"
#include "superslab/parts.h"
#include "superslab/place.h"
#include "superslab/purge.h"
#include "sys/sys.h"

enum {
    WASTE_SHARE = 4,      /* so much of a superslab is much */
    PREFAULT_SHARE = 256, /* slots populated ahead are at most this part of those in use */
    GROWTH_ROOM = 8,      /* a run that grows is put where it has so many times its size, or half of that, ... */
    HUGE_REST_SHARE = 8, /* a run begins in a huge page that is there when what is free of it is this part of the run */
};

/* How the superslabs are opened that a run takes from the region. */
typedef struct opening {
    bool huge;
    size_t trial_as; /* slots of the run, if its superslabs tell how such runs are filled; or 0 */
} opening_t;

/* Takes the slots of a part; those of superslabs that the pool does not know come from the region. */
static bool take_part_locked(size_t index, uint32_t mask, opening_t how, bool *zeroed) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(mask != 0);
    superslab_t *s = pool_record(index);
    if (pool_knows(index)) {
        *zeroed &= pool_take_locked(s, mask);
        return true;
    }
    if (!pool_open_at_locked(index, how.huge))
        return false;
    if (how.trial_as != 0)
        pool_opened_sparse_locked(index, 1, how.trial_as);
    if (mask != ALL_SLOTS)
        pool_give_fresh_locked(pool_record(index), ~mask, pool_record(index)->huge);
    return true;
}

static bool may_take_locked(slot_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    size_t index, length;
    for (size_t done = 0; done < count; done += length) {
        uint32_t mask = pool_part(first + (slot_t)done, count - done, &index, &length);
        if (pool_knows(index) ? (pool_shared_mask(pool_record(index)) & mask) != mask : !region_may_serve(index))
            return false;
    }
    return true;
}

static bool alloc_at_locked(slot_t first, size_t count, opening_t how, bool *zeroed) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(first != 0 && count > 0);
    size_t done = 0, index, length;
    *zeroed = true;
    if (!may_take_locked(first, count))
        return false;
    while (done < count) {
        uint32_t mask = pool_part(first + (slot_t)done, count - done, &index, &length);
        if (!take_part_locked(index, mask, how, zeroed))
            break;
        done += length;
    }
    bool complete = done == count;
    for (size_t undone = 0; !complete && undone < done; undone += length) {
        uint32_t mask = pool_part(first + (slot_t)undone, done - undone, &index, &length);
        /* What was dirty before may be dirty still. */
        pool_free_locked(index, mask, true);
    }
    return complete;
}

/* Slots that are taken or dirty. */
static size_t resident_slots(void) {
    return pool_count(&hk_pool.present) - pool_count(&hk_pool.free) + pool_count(&hk_pool.dirty);
}

bool slots_alloc_at(slot_t first, size_t count, bool *zeroed) {
    hk_lock_here(&hk_superslab_lock);
    size_t before = resident_slots();
    /* A run with pages of one kind can be moved later. */
    opening_t how = {.huge = pool_record((first - 1) / SLOTS)->huge};
    bool complete = alloc_at_locked(first, count, how, zeroed);
    size_t grown = resident_slots() - before;
    hk_unlock_here(&hk_superslab_lock);
    if (complete)
        pool_purge_for_growth(grown);
    return complete;
}

/* Superslabs that a run takes whole, and that lie clean, get the pages that suit its use. */
static void convert_run_locked(size_t first, size_t count, slots_use_t use, bool huge) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(count > 0);
    for (size_t i = hk_align_up(first, SLOTS); i + SLOTS <= first + count; i += SLOTS) {
        superslab_t *s = pool_record(i / SLOTS);
        if (!pool_knows(i / SLOTS))
            continue;
        hk_count(superslabs_reused);
        if (s->dirty_mask != 0)
            continue;
        pool_convert_locked(s, use, huge);
    }
}

/* Pages of one kind, and huge ones, are worth more than a small part that is resident. But the last huge page of a run
 * is where the next one begins: otherwise each leaves up to 2 MiB of it. */
static size_t least_dirty(size_t count, bool begins_huge, bool earns) {
    return begins_huge && earns ? count / HUGE_REST_SHARE : begins_huge || earns ? count / 2 : 0;
}

static slots_t alloc_resident_locked(size_t count, size_t align, slots_use_t use, bool in_a_hurry) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    bool zeroed;
    place_t place = pool_find_place_locked(count, align, in_a_hurry);
    if (place.dirty == 0)
        return (slots_t){0};
    bool begins_huge = pool_record(place.first / SLOTS)->huge, earns = pool_earns_huge_locked(count, use);
    if (count >= PAIR * SLOTS && place.dirty < least_dirty(count, begins_huge, earns))
        return (slots_t){0};
    bool huge = earns && (begins_huge || use == SLOTS_DENSE || hk_option(HK_OPT_HUGE) == HK_HUGE_FORCE);
    convert_run_locked(place.first, count, use, huge);
    opening_t how = {huge, use == SLOTS_SPARSE ? count : 0};
    bool took = alloc_at_locked((slot_t)place.first, count, how, &zeroed);
    return took ? (slots_t){(slot_t)place.first, zeroed} : (slots_t){0};
}

/* Superslabs fresh from the region. */
static slots_t alloc_across_locked(size_t count, size_t align, slots_use_t use, bool huge) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(count > 0 && hk_is_pow2(align));
    const unsigned tail = (unsigned)(count % SLOTS);
    const uint32_t tail_mask = tail == 0 ? 0 : ALL_SLOTS << tail;
    /* A run that begins where a superslab does can never begin in what the last huge page of another has left. */
    const bool leaves_tail = tail != 0 && align >= SLOTS && count > SLOTS && pool_tail_is_small_locked();
    const size_t huge_count = huge ? pool_superslabs_for(count) - leaves_tail : 0;
    slot_t first = pool_open_locked(count, hk_max(align / SLOTS, 1), tail_mask, use, huge_count);
    return (slots_t){first, true};
}

/* Any stretch of the slot pool, for when memory is out: one of clean slots may lie across superslabs. */
static slots_t alloc_anywhere_locked(size_t count, size_t align) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(count > 0 && hk_is_pow2(align));
    bool zeroed;
    for (size_t index = region_next_used(1); index != 0; index = region_next_used(index + 1))
        for (uint32_t left = pool_knows(index) ? pool_shared_mask(pool_record(index)) : 0; left != 0;) {
            unsigned at = hk_ctz64(left), length = hk_ctz64(~((uint64_t)left >> at));
            size_t first = hk_align_up(index * SLOTS + at, align);
            if (pool_free_after(first, count, 0) == count &&
                alloc_at_locked((slot_t)first, count, (opening_t){0}, &zeroed))
                return (slots_t){(slot_t)first, zeroed};
            left &= ~(uint32_t)hk_low_mask64(at + length);
        }
    return (slots_t){0};
}

/* Where address space is scarce, and superslabs would be left with much that no such run fits in: from the free end of
 * one into the next, which would be opened in any case. Others stay within a superslab, which can then go back
 * sooner. */
static slots_t alloc_behind_locked(size_t count) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    bool wasteful = count < SLOTS && SLOTS % count >= SLOTS / WASTE_SHARE, zeroed;
    size_t next = wasteful && region_is_tight() ? region_lowest_free() : 0, index = next - 1;
    if (next <= 1 || !pool_knows(index))
        return (slots_t){0};
    uint32_t taken = ~pool_record(index)->free_mask;
    size_t tail = taken == 0 ? SLOTS : SLOTS - 1 - hk_msb64(taken);
    slot_t first = (slot_t)(next * SLOTS - tail);
    if (tail == 0 || tail >= count || !alloc_at_locked(first, count, (opening_t){0}, &zeroed))
        return (slots_t){0};
    return (slots_t){first, zeroed};
}

static slots_t alloc_locked(size_t count, size_t align, slots_use_t use, bool in_a_hurry) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    slots_t got = {0};
    bool within = count <= SLOTS && align <= SLOTS;
    /* A slab's slots are aligned by their number, so they never lie across superslabs. */
    if (!within || align < count)
        got = alloc_resident_locked(count, align, use, in_a_hurry);
    if (got.first == 0 && align == 1)
        got = alloc_behind_locked(count);
    if (got.first == 0)
        got = within ? pool_alloc_within_locked((unsigned)count, (unsigned)align, use)
                     : alloc_across_locked(count, align, use, pool_earns_huge_locked(count, use));
    if (got.first == 0)
        got = alloc_anywhere_locked(count, align);
    if (got.first == 0 && within && region_is_tight())
        got = pool_alloc_part_locked((unsigned)count, (unsigned)align, use & ~(slots_use_t)SLOTS_CLEAN);
    return got;
}

slots_t slots_alloc_with_spare(size_t count, size_t align, slots_use_t use, slots_spare_t *spare) {
    hk_assert(count > 0 && hk_is_pow2(align));
    const bool waits = !hk_try_lock_here(&hk_superslab_lock);
    if (waits)
        hk_lock_here(&hk_superslab_lock);
    size_t before = resident_slots();
    slots_t got = alloc_locked(count, align, use, waits);
    size_t grown = resident_slots() - before;
    spare->waited = waits;
    if (spare->most > 0 && got.first != 0)
        pool_take_spare_locked(got.first, count, spare);
    pool_trial_t trial = pool_due_trial_locked();
    hk_unlock_here(&hk_superslab_lock);
    if (trial.index != 0)
        pool_look_at(&trial);
    if (got.first != 0)
        pool_purge_for_growth(grown);
    return got;
}

static bool take_if(slot_t first, size_t count, bool dirty) {
    hk_assert(first / SLOTS == (first + count - 1) / SLOTS);
    size_t index, length;
    uint32_t mask = pool_part(first, count, &index, &length);
    hk_lock(&hk_superslab_lock);
    const superslab_t *s = pool_record(index);
    bool fits = pool_knows(index) && ((dirty ? s->dirty_mask : s->free_mask) & mask) == mask;
    if (fits)
        (void)pool_take_locked(pool_record(index), mask);
    hk_unlock(&hk_superslab_lock);
    return fits;
}

bool slots_take_free(slot_t first, size_t count) { return take_if(first, count, false); }
bool slots_take_dirty(slot_t first, size_t count) { return take_if(first, count, true); }

slots_t slots_alloc_fresh(size_t count, size_t grown, bool huge) {
    hk_assert(count > 0 && grown <= count);
    hk_lock(&hk_superslab_lock);
    slots_t got = alloc_across_locked(count, 1, huge ? SLOTS_DENSE : SLOTS_SPARSE, huge);
    hk_unlock(&hk_superslab_lock);
    if (got.first != 0)
        pool_purge_for_growth(grown);
    return got;
}

slots_t slots_alloc_dirty(size_t count, size_t least_room) {
    hk_assert(count > 0 && least_room >= count && count <= SIZE_MAX / GROWTH_ROOM);
    slots_t got = {0};
    hk_lock(&hk_superslab_lock);
    for (size_t room = GROWTH_ROOM * count; got.first == 0 && room >= least_room; room /= 2) {
        place_t place = room <= pool_count(&hk_pool.dirty) ? pool_find_place_locked(room, 1, false) : (place_t){0};
        if (place.dirty == room && alloc_at_locked((slot_t)place.first, count, (opening_t){0}, &got.zeroed))
            got.first = (slot_t)place.first;
    }
    hk_unlock(&hk_superslab_lock);
    return got;
}

bool slots_are_dirty(slot_t first, size_t count) {
    hk_assert(first != 0 && count > 0);
    hk_lock(&hk_superslab_lock);
    bool dirty = pool_dirty_at(first, count) == count;
    hk_unlock(&hk_superslab_lock);
    return dirty;
}

bool slots_alike(slot_t first, size_t count) {
    hk_assert(first != 0 && count > 0);
    bool alike = true;
    hk_lock(&hk_superslab_lock);
    for (size_t index = first / SLOTS; index <= (first + count - 1) / SLOTS; index++)
        alike &= pool_record(index)->huge == pool_record(first / SLOTS)->huge;
    hk_unlock(&hk_superslab_lock);
    return alike;
}

/* Whole superslabs of a long run go straight back to the region, so their pages must go first. */
static void purge_long_run(slot_t first, size_t count) {
    slot_t from = (slot_t)hk_align_up(first, SLOTS);
    size_t whole = first + count > from ? hk_align_down(first + count - from, SLOTS) : 0;
    if (whole == 0)
        return;
    sys_purge(map_slot_address(from), whole << HK_SLOT_SHIFT);
    hk_count(purge_calls);
    hk_count_by(purged_bytes, whole << HK_SLOT_SHIFT);
    event_purge(whole << HK_SLOT_SHIFT, EVENT_PURGE_FREE);
}

static void free_run(slot_t first, size_t count, bool dirty, bool whole_purged) {
    hk_assert(first != 0 && count > 0);
    size_t done = 0, index, length;
    hk_lock_here(&hk_superslab_lock);
    while (done < count) {
        uint32_t mask = pool_part(first + (slot_t)done, count - done, &index, &length);
        if (whole_purged && mask == ALL_SLOTS) {
            length = hk_align_down(count - done, SLOTS);
            pool_close_locked(index, length / SLOTS);
        } else {
            pool_free_locked(index, mask, dirty);
        }
        done += length;
    }
    hk_unlock_here(&hk_superslab_lock);
}

void slots_free(slot_t first, size_t count, bool dirty) {
    bool whole_purged = count > SLOTS;
    if (whole_purged && dirty)
        purge_long_run(first, count);
    free_run(first, count, dirty, whole_purged);
}

void slots_free_for_reuse(slot_t first, size_t count) { free_run(first, count, true, false); }

void slots_free_mask(size_t superslab, uint32_t mask, bool dirty) {
    hk_assert(mask != 0);
    hk_lock_here(&hk_superslab_lock);
    pool_free_locked(superslab, mask, dirty);
    hk_unlock_here(&hk_superslab_lock);
}

static void touch(char *from, size_t size) {
    size_t page = sys_page_size();
    for (size_t at = 0; at < size; at += page)
        ((volatile char *)from)[at] = 0;
}

void slots_prefault(slot_t first, size_t count) {
    hk_assert(first != 0 && count > 0);
    size_t size = count << HK_SLOT_SHIFT;
    char *from = map_slot_address(first);
    int64_t policy = hk_option(HK_OPT_PREFAULT);
    /* A small share of what is in use, so that what is populated in vain stays small too. */
    bool ahead = policy == HK_PREFAULT_AUTO && pool_count(&hk_pool.used) >= count * PREFAULT_SHARE;
    if (policy == HK_PREFAULT_OFF || (policy == HK_PREFAULT_AUTO && !ahead))
        return;
    if (policy == HK_PREFAULT_TOUCH || sys_populate(from, size) != 0) {
        if (policy == HK_PREFAULT_AUTO)
            return;
        touch(from, size);
    }
    hk_count_by(prefault_bytes, size);
}
