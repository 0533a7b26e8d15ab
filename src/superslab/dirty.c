/* SPDX-License-Identifier: MIT
 *
 * Superslabs with dirty slots: in a queue, those that wait longest for a purge first, and in lists by the length of the
 * longest stretch of such slots, likewise, where a place for a run is looked for. Stretches that go on in the next
 * superslab are followed by who looks (runs.c).
 */
#include "superslab/dirty.h"

#include "core/panic.h"
#include "core/message.h"

/* Guarded by hk_superslab_lock. */
static uint32_t dirty_head, dirty_tail;
static size_t dirty_low; /* the least number of dirty slots since it was last asked for */
static struct length_list { uint32_t first, last; /* `length_next` leads on */ } by_length[SLOTS + 1];
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

static void unlist_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->length > 0 && s->length <= SLOTS);
    hk_assert(s->length_previous != 0 || by_length[s->length].first == pool_index(s));
    struct length_list *list = &by_length[s->length];
    if (s->length_previous != 0)
        pool_record(s->length_previous)->length_next = s->length_next;
    else
        list->first = s->length_next;
    if (s->length_next != 0)
        pool_record(s->length_next)->length_previous = s->length_previous;
    else
        list->last = s->length_previous;
    if (list->first == 0)
        lengths &= ~(UINT64_C(1) << s->length);
}

static void list_locked(superslab_t *s, unsigned length) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(length > 0 && length <= SLOTS && s->length == 0);
    struct length_list *list = &by_length[length];
    s->length = (uint8_t)length;
    s->length_next = 0;
    s->length_previous = list->last;
    if (list->last != 0)
        pool_record(list->last)->length_next = pool_index(s);
    else
        list->first = pool_index(s);
    list->last = pool_index(s);
    lengths |= UINT64_C(1) << length;
}

static void relist_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    unsigned length = longest_stretch(s->dirty_mask);
    if (s->length == length)
        return;
    if (s->length != 0)
        unlist_locked(s);
    s->length = 0;
    if (length != 0)
        list_locked(s, length);
}

static void queue_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(!s->queued && s->dirty_mask != 0);
    s->queued = true;
    s->dirty_next = 0;
    s->dirty_previous = dirty_tail;
    if (dirty_tail != 0)
        pool_record(dirty_tail)->dirty_next = pool_index(s);
    else
        dirty_head = pool_index(s);
    dirty_tail = pool_index(s);
}

static void unqueue_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->queued && s->dirty_mask == 0);
    hk_assert(s->dirty_previous != 0 || dirty_head == pool_index(s));
    if (s->dirty_previous != 0)
        pool_record(s->dirty_previous)->dirty_next = s->dirty_next;
    else
        dirty_head = s->dirty_next;
    if (s->dirty_next != 0)
        pool_record(s->dirty_next)->dirty_previous = s->dirty_previous;
    else
        dirty_tail = s->dirty_previous;
    s->queued = false;
}

void pool_set_dirty_locked(superslab_t *s, uint32_t mask) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->queued == (s->dirty_mask != 0));
    if (s->dirty_mask == mask)
        return;
    size_t change = hk_popcount64(mask) - (size_t)hk_popcount64(s->dirty_mask);
    s->dirty_mask = mask;
    pool_change(&hk_pool.dirty, (ptrdiff_t)change);
    dirty_low = hk_min(dirty_low, pool_count(&hk_pool.dirty));
    if (mask != 0 && !s->queued)
        queue_locked(s);
    else if (mask == 0)
        unqueue_locked(s);
    relist_locked(s);
}

uint32_t pool_dirty_head_locked(void) { return dirty_head; }

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
    size_t queue_holds = 0, lists_hold = 0, bad = 0;
    for (uint32_t i = dirty_head; i != 0 && queue_holds <= limit; i = pool_record(i)->dirty_next)
        queue_holds++;
    for (unsigned length = 0; length <= SLOTS; length++) {
        bad += (by_length[length].first != 0) != (lengths >> length & 1);
        for (uint32_t i = by_length[length].first; i != 0 && lists_hold <= limit; i = pool_record(i)->length_next) {
            bad += longest_stretch(pool_record(i)->dirty_mask) != length || pool_record(i)->length != length;
            lists_hold++;
        }
    }
    if (queue_holds == queued && lists_hold == queued && bad == 0)
        return 0;
    hk_message("check: superslabs with dirty slots: %zu in the queue, %zu in lists (%zu wrong), %zu flagged",
               queue_holds, lists_hold, bad, queued);
    return 1;
}
