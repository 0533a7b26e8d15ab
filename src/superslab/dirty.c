/* SPDX-License-Identifier: MIT
 *
 * Superslabs with dirty slots: in a queue, those that wait longest for a purge first, and in lists by the length of the
 * longest stretch of such slots, likewise, where a place for a run is looked for: private ones are in none of these.
 * Stretches that go on in the next superslab are followed by who looks (place.c).
 */
#include "superslab/dirty.h"

#include "core/panic.h"
#include "core/message.h"

/* Guarded by hk_superslab_lock. */
static struct dirty_list { uint32_t first, last; } queue, by_length[SLOTS + 1];
static size_t dirty_low; /* the least number of dirty slots since it was last asked for */
static uint64_t lengths; /* bit `length`: that list is not empty */

/* By halves: masks of the places where stretches of 1, 2, 4, 8, 16 slots begin, put together. */
static unsigned longest_stretch(uint32_t mask) {
    uint32_t begins[] = {mask, 0, 0, 0, 0}, found = ALL_SLOTS;
    unsigned length = 0;
    if (mask == ALL_SLOTS)
        return SLOTS;
    for (unsigned k = 1; k < 5; k++)
        begins[k] = begins[k - 1] & begins[k - 1] >> (1u << (k - 1));
    for (unsigned k = 5; k-- > 0;)
        if ((found & begins[k] >> length) != 0) {
            found &= begins[k] >> length;
            length += 1u << k;
        }
    return length;
}

static void append_locked(struct dirty_list *list, unsigned kind, superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    s->links[kind] = (struct pool_links){.previous = list->last};
    if (list->last != 0)
        pool_record(list->last)->links[kind].next = pool_index(s);
    else
        list->first = pool_index(s);
    list->last = pool_index(s);
}

static void remove_locked(struct dirty_list *list, unsigned kind, const superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    const struct pool_links links = s->links[kind];
    hk_assert(links.previous != 0 || list->first == pool_index(s));
    if (links.previous != 0)
        pool_record(links.previous)->links[kind].next = links.next;
    else
        list->first = links.next;
    if (links.next != 0)
        pool_record(links.next)->links[kind].previous = links.previous;
    else
        list->last = links.previous;
}

void pool_relist_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->length <= SLOTS);
    unsigned length = pool_is_private(s) ? 0 : longest_stretch(s->dirty_mask), before = s->length;
    if (before == length)
        return;
    s->length = (uint8_t)length;
    if (before != 0)
        remove_locked(&by_length[before], POOL_OF_LENGTH, s);
    if (before != 0 && by_length[before].first == 0)
        lengths &= ~(UINT64_C(1) << before);
    if (length == 0)
        return;
    append_locked(&by_length[length], POOL_OF_LENGTH, s);
    lengths |= UINT64_C(1) << length;
}

void pool_set_dirty_locked(superslab_t *s, uint32_t mask) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->queued == (s->dirty_mask != 0));
    if (s->dirty_mask == mask)
        return;
    size_t change = hk_popcount32(mask) - (size_t)hk_popcount32(s->dirty_mask);
    s->dirty_mask = mask;
    pool_change(&hk_pool.dirty, (ptrdiff_t)change);
    dirty_low = hk_min(dirty_low, pool_count(&hk_pool.dirty));
    if (mask != 0 && !s->queued)
        append_locked(&queue, POOL_QUEUE, s);
    else if (mask == 0)
        remove_locked(&queue, POOL_QUEUE, s);
    s->queued = mask != 0;
    pool_relist_locked(s);
}

uint32_t pool_dirty_head_locked(void) { return queue.first; }

unsigned pool_length_from_locked(unsigned least) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    uint64_t from = lengths & ~hk_low_mask64(least);
    return from != 0 ? hk_ctz64(from) : 0;
}

unsigned pool_length_below_locked(unsigned end) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    uint64_t below = lengths & hk_low_mask64(end);
    return below != 0 ? hk_msb64(below) : 0;
}

uint32_t pool_of_length_locked(unsigned length) {
    hk_assert(length > 0 && length <= SLOTS);
    return by_length[length].first;
}

size_t superslab_dirty_low(void) {
    hk_lock(&hk_superslab_lock);
    size_t low = dirty_low;
    dirty_low = pool_count(&hk_pool.dirty);
    hk_unlock(&hk_superslab_lock);
    return low;
}

/* The queue and the lists, walked: what they hold and what the records say must agree. */
size_t pool_check_dirty_locked(size_t queued, size_t limit) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    size_t queue_holds = 0, listed = 0, lists_hold = 0, bad = 0;
    for (uint32_t i = queue.first; i != 0 && queue_holds <= limit; i = pool_record(i)->links[POOL_QUEUE].next) {
        queue_holds++;
        listed += !pool_is_private(pool_record(i));
    }
    for (unsigned length = 0; length <= SLOTS; length++) {
        bad += (by_length[length].first != 0) != (lengths >> length & 1);
        for (uint32_t i = by_length[length].first; i != 0 && lists_hold <= limit; lists_hold++) {
            const superslab_t *s = pool_record(i);
            bad += longest_stretch(s->dirty_mask) != length || s->length != length;
            i = s->links[POOL_OF_LENGTH].next;
        }
    }
    if (queue_holds == queued && lists_hold == listed && bad == 0)
        return 0;
    hk_message("check: superslabs with dirty slots: %zu queued, %zu of %zu in lists (%zu wrong), %zu flagged",
               queue_holds, lists_hold, listed, bad, queued);
    return 1;
}
