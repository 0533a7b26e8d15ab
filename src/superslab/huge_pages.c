/* SPDX-License-Identifier: MIT
 *
 * Which superslabs ask for huge pages, and how many stretches of the address space differ in that.
 *
 * Dense superslabs, and long runs that are expected to be filled, earn them by the size of the heap. Of the others a
 * program may use a page here and there, so those before them decide: a superslab that was opened with small pages is
 * looked at (mincore) when all its slots are taken and some more were opened since, which leaves the program time to
 * write. Slots that were taken last for small blocks do not count: these are filled, whatever lay there before. Once
 * two in a row were full, those opened for as many slots as they were, or up to twice as many, ask for huge pages; one
 * that is not full ends that for a quarter of its slots and more. A huge page is resident as a whole and proves
 * nothing, so one superslab in nine (in a large heap, one for each eighth of it) keeps small pages, to be looked at.
 *
 * A look costs as much as all else that an allocation of 2 MiB does, so looks that change nothing get rarer: eight in a
 * row double the number of superslabs that are opened from one to the next, up to an eighth of the heap. One that finds
 * a full superslab is followed by the next at once. Who opens a superslab looks, when it has let go of the lock; what
 * it saw is learned under the lock again, unless the superslab was given back meanwhile.
 */
#include "superslab/huge_pages.h"

#include "core/counters.h"
#include "core/options.h"
#include "core/panic.h"
#include "superslab/residency.h"
#include "sys/sys.h"

enum {
    HUGE_BORDERS_MAX = 600, /* each is one mapping more */
    HUGE_SHARE = 8,     /* a superslab asks for a huge page when it is at most this part of the heap, itself included */
    RECORDS_SHARE = 48, /* a huge page of records is at most this share: such pages fill slowly */
    TRIALS = 16,        /* superslabs of small pages that wait to be looked at */
    TRIAL_AGE = 8,      /* ... until so many more were opened */
    LOOKS_A_GAP = 8,    /* looks in vain, until the next ones are twice as far apart */
    HUGE_IN_A_ROW =
        8, /* sparse superslabs of huge pages, until one has small ones; or an eighth of all, if that is more */
    DENSE_FREE_SHARE =
        2, /* a superslab of huge pages is broken up when this part of it is free: pages of small blocks ... */
    SPARSE_FREE_SHARE = 8, /* ... are hardly ever free as a whole; others would not have earned them any more */
};

/* Guarded by hk_superslab_lock. */
static int huge_borders; /* neighbours of which one is advised to use huge pages */
static pool_trial_t trials[TRIALS];
static pool_trial_t due; /* to be looked at by who holds the lock, when it has let go of it */
static unsigned trial_next;
static unsigned opened_count;  /* sparse superslabs */
static unsigned opened_small;  /* ... when the last of small pages was */
static size_t full_last;       /* slots that the trial looked at last was opened for, if it was full */
static size_t full_slots;      /* the most that two in a row were */
static unsigned looked_at;     /* opened_count at the last look */
static unsigned looks_in_vain; /* looks since the last that changed anything */

/* The kernel splits a mapping where advice changes: how many more such places there are when superslab `index`
 * changes. */
static int borders_by_change(size_t index) {
    hk_assert(index > 0);
    bool huge = pool_record(index)->huge;
    int borders = pool_record(index - 1)->huge == huge ? 1 : -1;
    bool above = (index + 1) * SLOTS < map_count() && pool_record(index + 1)->huge;
    return borders + (above == huge ? 1 : -1);
}

bool pool_set_huge_locked(superslab_t *s, bool huge) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(huge_borders >= 0);
    int borders = borders_by_change(pool_index(s));
    if (s->huge == huge || (borders > 0 && huge_borders >= HUGE_BORDERS_MAX))
        return s->huge == huge;
    huge_borders += borders;
    s->huge = huge;
    return true;
}

bool pool_tail_is_small_locked(void) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    return hk_option(HK_OPT_HUGE) != HK_HUGE_FORCE && huge_borders < HUGE_BORDERS_MAX / 2;
}

void pool_forget_huge_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    if (s->huge)
        huge_borders += borders_by_change(pool_index(s));
    s->huge = false;
}

/* True when a huge page is at most 1 / `share` of what is used and that page. */
static bool is_small_part(size_t used_slots, size_t share) {
    int64_t policy = hk_option(HK_OPT_HUGE);
    return policy == HK_HUGE_FORCE || (policy == HK_HUGE_AUTO && used_slots >= (share - 1) * SLOTS);
}

bool pool_records_earn_huge(void) { return is_small_part(pool_count(&hk_pool.used), RECORDS_SHARE); }

/* All of its slots are or were in use, and none has gone back. */
static bool is_ripe(const pool_trial_t *trial) {
    const superslab_t *s = pool_record(trial->index);
    return trial->index != 0 && opened_count - trial->opened >= TRIAL_AGE && s->free_mask == s->dirty_mask &&
           s->purging_mask == 0 && s->present_mask == ALL_SLOTS;
}

/* What was never touched would cost nothing in huge pages either. */
static void learn_locked(size_t slot_count, residency_t share) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(slot_count > 0 && slot_count < PAIR * SLOTS);
    size_t before = full_slots;
    if (share == RESIDENCY_FULL) {
        full_slots = hk_max(full_slots, hk_min(slot_count, full_last));
        full_last = slot_count;
    } else if (share == RESIDENCY_SOME) {
        full_slots = hk_min(full_slots, slot_count / 4);
        full_last = 0;
    }
    looks_in_vain = full_slots != before ? 0 : looks_in_vain + 1;
}

/* So many may be opened while what is known of them may be out of date. */
static size_t most_unseen(void) { return hk_max(HUGE_IN_A_ROW, pool_count(&hk_pool.superslabs) / HUGE_SHARE); }

/* So many superslabs are opened from one look to the next. */
static size_t look_gap(void) { return hk_min((size_t)1 << hk_min(looks_in_vain / LOOKS_A_GAP, 31), most_unseen()); }

void pool_opened_sparse_locked(size_t first, size_t count, size_t slot_count) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(count > 0 && slot_count > 0);
    if (slot_count >= PAIR * SLOTS)
        return;
    opened_count += (unsigned)count;
    if (pool_record(first)->huge)
        return;
    opened_small = opened_count;
    for (unsigned i = 0; i < TRIALS; i++)
        if (trials[i].index == first)
            trials[i].index = 0;
    trials[trial_next++ % TRIALS] = (pool_trial_t){(uint32_t)first, opened_count, (uint32_t)slot_count, 0};
}

/* The newest that is ripe. One that is full proves something together with the next. */
static void find_due_locked(void) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    if (full_last == 0 && opened_count - looked_at < look_gap())
        return;
    for (unsigned i = 1; i <= TRIALS; i++) {
        pool_trial_t *trial = &trials[(trial_next - i) % TRIALS];
        if (!is_ripe(trial))
            continue;
        due = *trial;
        due.small_mask = pool_record(trial->index)->small_mask;
        trial->index = 0;
        looked_at = opened_count;
        return;
    }
}

pool_trial_t pool_due_trial_locked(void) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    pool_trial_t trial = due;
    due.index = 0;
    return trial;
}

/* The superslab may have become something else since it was opened, or while it was looked at. */
void pool_look_at(const pool_trial_t *trial) {
    hk_assert(trial->index != 0);
    residency_t share = residency_of_slots(region_superslab_address(trial->index), ~trial->small_mask);
    hk_lock(&hk_superslab_lock);
    const superslab_t *s = pool_record(trial->index);
    if (is_ripe(trial) && s->in_use && !s->huge && slots_are_sparse(s->use))
        learn_locked(trial->slot_count, share);
    hk_unlock(&hk_superslab_lock);
}

/* Whether such superslabs were filled before, and the next is not one to be looked at. */
static bool sparse_earns_locked(size_t slot_count) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    if (!is_small_part(pool_count(&hk_pool.present) - pool_count(&hk_pool.free), HUGE_SHARE))
        return false;
    find_due_locked();
    return slot_count <= 2 * full_slots && opened_count - opened_small < most_unseen();
}

/* Of a dense run, a huge page too many, at its end, is then a small part of what is in use. */
bool pool_earns_huge_locked(size_t slot_count, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(slot_count > 0 && use < SLOTS_USES);
    if (hk_option(HK_OPT_HUGE) != HK_HUGE_AUTO)
        return hk_option(HK_OPT_HUGE) == HK_HUGE_FORCE;
    if (use == SLOTS_SPARSE)
        return slot_count < PAIR * SLOTS && sparse_earns_locked(slot_count);
    size_t superslabs = pool_superslabs_for(slot_count);
    return superslabs > 1 ? pool_count(&hk_pool.superslabs) + superslabs >= HUGE_SHARE
                          : is_small_part(pool_count(&hk_pool.used), HUGE_SHARE);
}

/* Huge pages for `count` superslabs: one call for all of them. */
static void ask_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    size_t done = 0;
    while (done < count && pool_set_huge_locked(pool_record(first + done), true))
        done++;
    if (done > 0 && sys_advise_huge(region_superslab_address(first), done << HK_SUPERSLAB_SHIFT) == 0)
        hk_count_by(huge_page_bytes, done << HK_SUPERSLAB_SHIFT);
}

/* For slots of which a program may touch a few pages only. Huge pages may stay where the borders are too many. */
static void ask_small_locked(size_t index) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    superslab_t *s = pool_record(index);
    if (s->huge && pool_set_huge_locked(s, false))
        (void)sys_advise_no_huge(region_superslab_address(index), HK_SUPERSLAB_SIZE);
}

void pool_advise_locked(size_t first, size_t count, bool huge) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(first > 0);
    if (huge)
        ask_locked(first, count);
    for (size_t i = first; !huge && i < first + count; i++)
        ask_small_locked(i);
}

bool superslab_make_small(size_t index, size_t free_bytes) {
    superslab_t *s = pool_record(index);
    hk_lock(&hk_superslab_lock);
    size_t share = slots_are_sparse(s->use) ? SPARSE_FREE_SHARE : DENSE_FREE_SHARE;
    bool huge = s->in_use && s->huge;
    free_bytes += (size_t)hk_popcount32(s->free_mask) << HK_SLOT_SHIFT;
    bool right = !huge || (free_bytes * share >= HK_SUPERSLAB_SIZE && pool_set_huge_locked(s, false));
    hk_unlock(&hk_superslab_lock);
    if (huge && right)
        sys_break_huge(region_superslab_address(index), HK_SUPERSLAB_SIZE);
    return right;
}
