/* SPDX-License-Identifier: MIT */
#include "superslab/place.h"

#include "core/panic.h"
#include "region/index.h"
#include "superslab/dirty.h"

enum {
    FIT_LOOKS_MAX = 8,  /* superslabs with a place for a short run that are looked at for the best, unless others wait
                           for the lock, */
    LOOKS_MAX = 16,     /* ... and without one, for what goes on in the next */
    LENGTH_MAX = 16384, /* slots of a stretch that are followed: 1 GiB */
    WALK_MAX = 1024,    /* looks, and superslabs of the places that they find, for one run */
    CLOSE_SHARE = 16,   /* a stretch that is longer by this part at most is not worth looking further */
};

size_t pool_dirty_at(size_t first, size_t count) {
    size_t dirty = 0, index, length;
    for (size_t done = 0; done < count; done += length) {
        uint32_t mask = pool_part((slot_t)(first + done), count - done, &index, &length);
        if (pool_knows(index))
            dirty += hk_popcount32(pool_record(index)->dirty_mask & mask);
    }
    return dirty;
}

size_t pool_free_after(size_t at, size_t most, size_t wanted) {
    size_t length = 0, more, left;
    do {
        size_t index = (at + length) / SLOTS, end = index_vacant_end(index, map_count() / SLOTS);
        if (end > index) {
            length = end * SLOTS - at;
            index = end;
        }
        uint64_t free = pool_knows(index)                            ? pool_shared_mask(pool_record(index))
                        : length < wanted && region_may_serve(index) ? ALL_SLOTS
                                                                     : 0;
        left = SLOTS - (at + length) % SLOTS;
        more = hk_ctz64(~(free >> (SLOTS - left)));
        length += more;
    } while (more == left && length < most);
    return hk_min(length, most);
}

/* Free slots of the pool in front of the superslab. */
static size_t free_before(size_t superslab) {
    hk_assert(superslab > 0);
    size_t from = index_vacant_begin(superslab), length = (superslab - from) * SLOTS;
    uint64_t free = pool_knows(from - 1) ? pool_shared_mask(pool_record(from - 1)) : 0;
    return hk_min(length + 63 - hk_msb64(~(free << (64 - SLOTS))), LENGTH_MAX);
}

/* The stretch of free slots around the free slot `at` of the superslab. */
static void see(place_t *best, const superslab_t *s, unsigned at) {
    hk_assert(pool_shared_mask(s) >> at & 1);
    const uint64_t free = pool_shared_mask(s);
    const unsigned before = 63 - hk_msb64(~(free << (63 - at))), after = hk_ctz64(~(free >> at));
    const size_t index = pool_index(s), slot = index * SLOTS + at;
    best->seen = slot + 1 - before;
    best->seen_end = slot + after;
    if (before > at)
        best->seen -= free_before(index);
    if (at + after == SLOTS)
        best->seen_end += pool_free_after((index + 1) * SLOTS, LENGTH_MAX, best->count - hk_min(best->count, after));
}

/* Returns how much of the place is dirty. */
static size_t consider(place_t *best, size_t first) {
    const size_t room = best->seen_end - hk_align_up(best->seen, best->align);
    hk_assert(first % best->align == 0 && room >= best->count);
    size_t dirty = pool_dirty_at(first, best->count);
    best->walked += pool_superslabs_for(best->count);
    if (dirty > best->dirty || (dirty == best->dirty && room < best->room)) {
        best->first = first;
        best->dirty = dirty;
        best->room = room;
    }
    return dirty;
}

/* Whether no shorter stretch is worth a look: of superslabs whose longest one has `length` slots, few have one. */
static bool is_enough(const place_t *place, size_t length) {
    return place->walked >= WALK_MAX ||
           (place->dirty == place->count && place->room <= hk_max(length, place->count + place->count / CLOSE_SHARE));
}

/* In the stretch around the dirty slot `at`: at an end of it, so that the rest stays one, or where more is dirty. */
static void consider_around(place_t *best, const superslab_t *s, unsigned at) {
    const size_t slot = pool_first_slot(s) + at;
    const bool seen = slot >= best->seen && slot < best->seen_end;
    if (!seen)
        see(best, s, at);
    best->walked++;
    size_t from = hk_align_up(best->seen, best->align), end = best->seen_end;
    if (from + best->count > end)
        return;
    size_t last = hk_align_down(end - best->count, best->align);
    if (!seen && (consider(best, from) == best->count || consider(best, last) == best->count))
        return;
    if (best->dirty < best->count)
        consider(best, hk_max(from, hk_align_down(hk_min(slot, last), best->align)));
}

/* Looks at the free runs around the superslab's dirty runs of `least` slots or more. */
static void look_into(place_t *best, const superslab_t *s, unsigned least) {
    hk_assert(least > 0 && least <= SLOTS);
    size_t first = pool_first_slot(s);
    if (best->dirty == best->count && first >= best->seen && first + SLOTS <= best->seen_end)
        return; /* no other place in the stretch is better */
    for (uint32_t begins = pool_stretches(s->dirty_mask & pool_shared_mask(s), least, 1);
         begins != 0 && !is_enough(best, s->length);) {
        unsigned at = hk_ctz64(begins), length = hk_ctz64(~((uint64_t)s->dirty_mask >> at));
        consider_around(best, s, at);
        begins &= ~(uint32_t)hk_low_mask64(at + length);
    }
}

/* In the superslabs whose longest dirty stretch has `length` slots. Returns the looks that are left. */
static unsigned look_at_length(place_t *best, unsigned length, unsigned least, unsigned looks) {
    hk_assert(length > 0 && length <= SLOTS);
    uint32_t index = pool_of_length_locked(length);
    for (; index != 0 && looks > 0 && !is_enough(best, length); looks--) {
        look_into(best, pool_record(index), least);
        index = pool_record(index)->links[POOL_OF_LENGTH].next;
    }
    return looks;
}

/* For a run that fits into a superslab: among the shortest dirty stretches that serve, or else the longest, as these
 * may go on in the next superslab. */
static void find_short_locked(place_t *best, bool in_a_hurry) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    unsigned count = (unsigned)best->count, looks = in_a_hurry ? 1 : FIT_LOOKS_MAX;
    for (unsigned length = count; looks > 0 && (length = pool_length_from_locked(length)) != 0; length++)
        looks = look_at_length(best, length, count, looks);
    looks = best->dirty == count ? 0 : LOOKS_MAX;
    for (unsigned length = count; looks > 0 && (length = pool_length_below_locked(length)) != 0;)
        looks = look_at_length(best, length, length, looks);
}

/* For a longer one: in those that wait longest for a purge. */
static void find_long_locked(place_t *best) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    uint32_t index = pool_dirty_head_locked();
    for (; index != 0 && !is_enough(best, 0); index = pool_record(index)->links[POOL_QUEUE].next) {
        best->walked += pool_is_private(pool_record(index));
        look_into(best, pool_record(index), 1);
    }
}

place_t pool_find_place_locked(size_t count, size_t align, bool in_a_hurry) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(count > 0 && hk_is_pow2(align));
    place_t best = {.count = count, .align = align, .room = SIZE_MAX};
    if (count <= SLOTS)
        find_short_locked(&best, in_a_hurry);
    else
        find_long_locked(&best);
    return best;
}
