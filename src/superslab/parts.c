/* SPDX-License-Identifier: MIT */
#include "superslab/parts.h"

#include "superslab/bins.h"
#include "sys/sys.h"

enum {
    HOLES_MAX = 4096, /* each makes one mapping more; the kernel allows 65,530 by default */
};

/* --- Absent slots, mapped again ----------------------------------------------------------------------------------- */

static slots_t regrow_locked(superslab_t *s, unsigned count, unsigned align) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->in_use && s->present_mask != ALL_SLOTS);
    uint32_t places = pool_stretches(~s->present_mask, count, align);
    for (; places != 0; places &= places - 1) {
        unsigned at = hk_ctz64(places);
        uint32_t mask = (uint32_t)hk_low_mask64(count) << at;
        if (!region_map_slots(pool_index(s), at, count))
            continue;
        s->present_mask |= mask;
        pool_change(&hk_pool.present, (ptrdiff_t)count);
        return (slots_t){pool_first_slot(s) + at, true};
    }
    return (slots_t){0};
}

static bool may_serve(const superslab_t *s, slots_use_t use) { return !pool_is_private(s) || pool_is_of(s, use); }

static slots_t regrow_any_locked(unsigned count, unsigned align, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    slots_t got = {0};
    for (size_t i = region_next_used(1); i != 0 && got.first == 0; i = region_next_used(i + 1))
        if (pool_knows(i) && pool_record(i)->present_mask != ALL_SLOTS && may_serve(pool_record(i), use))
            got = regrow_locked(pool_record(i), count, align);
    return got;
}

slots_t pool_alloc_part_locked(unsigned count, unsigned align, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(count > 0 && count <= SLOTS && hk_is_pow2(align));
    slots_t again = regrow_any_locked(count, align, use);
    if (again.first != 0)
        return again;
    superslab_t *s = pool_open_part_locked(count, use);
    if (s == NULL)
        return (slots_t){0};
    return (slots_t){pool_first_slot(s), pool_take_locked(s, (uint32_t)hk_low_mask64(count))};
}

/* --- Free slots, unmapped ----------------------------------------------------------------------------------------- */

/* Those of huge pages stay: a piece of such a page would go at the price of the whole. */
static uint32_t releasable(const superslab_t *s) {
    hk_assert(s->in_use && (s->free_mask & ~s->present_mask) == 0);
    return s->free_mask == s->present_mask || s->huge ? 0 : s->free_mask;
}

/* Stretches of absent slots. */
static size_t holes_of(const superslab_t *s) {
    uint32_t absent = ~s->present_mask;
    return hk_popcount32(absent & ~(absent << 1));
}

/* What could be unmapped, and the holes that there are. */
static size_t survey(size_t *holes) {
    size_t bytes = 0;
    *holes = 0;
    hk_lock(&hk_superslab_lock);
    for (size_t i = region_next_used(1); i != 0; i = region_next_used(i + 1)) {
        if (!pool_knows(i))
            continue;
        bytes += (size_t)hk_popcount32(releasable(pool_record(i))) << HK_SLOT_SHIFT;
        *holes += holes_of(pool_record(i));
    }
    hk_unlock(&hk_superslab_lock);
    return bytes;
}

/* Whether the kernel would give `size` bytes if `bytes` of ours were not: it gives the difference now. */
static bool could_map(size_t size, size_t bytes) {
    if (size <= bytes)
        return true;
    size_t rest = hk_align_up(size - bytes, sys_page_size());
    void *probe = sys_map(rest);
    if (probe != NULL)
        (void)sys_unmap(probe, rest);
    return probe != NULL;
}

/* The slots of `mask` that lie in stretches of `least` or more. */
static uint32_t long_stretches(uint32_t mask, unsigned least) {
    hk_assert(least > 0 && least <= SLOTS);
    uint32_t begins = pool_stretches(mask, least, 1), slots = 0;
    for (unsigned i = 0; i < least; i++)
        slots |= begins << i;
    return slots;
}

/* A stretch that stays has no mapping left to be split off with, and nor has the next. */
static size_t release_locked(superslab_t *s, unsigned least, size_t *holes) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    uint32_t mask = long_stretches(releasable(s), least);
    if (mask == 0)
        return 0;
    size_t before = holes_of(s);
    uint32_t gone = region_unmap_slots(pool_index(s), mask);
    hk_assert((gone & ~mask) == 0);
    (void)pool_take_locked(s, gone);
    s->present_mask &= ~gone;
    pool_change(&hk_pool.present, -(ptrdiff_t)hk_popcount32(gone));
    *holes = gone == mask ? *holes + holes_of(s) - before : HOLES_MAX;
    return (size_t)hk_popcount32(gone) << HK_SLOT_SHIFT;
}

size_t superslab_release_free(size_t size) {
    size_t holes, bytes = 0;
    if (!region_is_tight() || !could_map(size, survey(&holes)))
        return 0;
    hk_lock(&hk_superslab_lock);
    for (unsigned least = SLOTS / 2; least > 0; least /= 2)
        for (size_t i = region_next_used(1); i != 0 && bytes < size && holes < HOLES_MAX; i = region_next_used(i + 1))
            if (pool_knows(i))
                bytes += release_locked(pool_record(i), least, &holes);
    hk_unlock(&hk_superslab_lock);
    return bytes;
}
