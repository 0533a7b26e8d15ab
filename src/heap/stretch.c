/* SPDX-License-Identifier: MIT */
#include "heap/stretch.h"

#include "core/options.h"
#include "core/panic.h"
#include "heap/budget.h"
#include "large/large.h"
#include "limit/limit.h"
#include "region/region.h"
#include "superslab/superslab.h"

#define FEW_BYTES (4 * (int64_t)HK_MIB) /* beside more runs than that, it counts where a run lies */

/* A stretch in a word: its first slot and how many there are. */
static uint64_t word_of(slot_t first, uint32_t count) {
    hk_assert(first != 0 && count > 0);
    return (uint64_t)first << 32 | count;
}

static slot_t first_of(uint64_t word) { return (slot_t)(word >> 32); }
static uint32_t count_of(uint64_t word) { return (uint32_t)word; }
static slot_t end_of(uint64_t word) { return first_of(word) + count_of(word); }

static void to_pool(uint64_t word) {
    if (count_of(word) > 0)
        slots_free_for_reuse(first_of(word), count_of(word));
}

size_t stretches_bytes(void) {
    size_t sum = 0;
    for (uint32_t id = HK_OWNER_SHARED; id < heap_limit(); id++)
        sum += stretch_bytes(heap_by_id(id));
    return sum;
}

void *stretch_take(heap_t *h, size_t size, size_t align, bool *zeroed) {
    hk_assert(size > 0);
    const size_t count = (size + HK_SLOT_SIZE - 1) >> HK_SLOT_SHIFT;
    uint64_t all = atomic_load_explicit(&h->stretch, memory_order_relaxed);
    if (count > count_of(all) || align > HK_SLOT_SIZE)
        return NULL;
    const uint64_t rest = count < count_of(all) ? all - count : 0;
    /* Relaxed: what the thread cuts off it has put there itself. */
    if (!atomic_compare_exchange_strong_explicit(&h->stretch, &all, rest, memory_order_relaxed, memory_order_relaxed))
        return NULL;
    stretch_note_taken(h);
    if (zeroed != NULL)
        *zeroed = false;
    return large_begin(&h->large, end_of(all) - (slot_t)count, count);
}

static bool has_few_runs(const heap_t *h) {
    return atomic_load_explicit(&h->large.live_bytes, memory_order_relaxed) <= FEW_BYTES;
}

static bool may_keep(const heap_t *h, const void *block) {
    return h->stretch_credit > 0 && large_size(block) <= (size_t)STRETCH_MAX << HK_SLOT_SHIFT && has_few_runs(h) &&
           large_is_plain(block) && heap_press() == HEAP_ROOM && !limit_is_near() && !region_is_near_limit() &&
           hk_option(HK_OPT_PURGE_DELAY) != 0;
}

/* The stretch after `more` has come; `*rest` is what does not stay. */
static uint64_t joined(uint64_t all, uint64_t more, uint64_t *rest) {
    const uint32_t sum = count_of(all) + count_of(more);
    *rest = 0;
    if (count_of(all) > 0 && sum <= STRETCH_MAX && end_of(all) == first_of(more))
        return word_of(first_of(all), sum);
    if (count_of(all) > 0 && sum <= STRETCH_MAX && end_of(more) == first_of(all))
        return word_of(first_of(more), sum);
    const bool stays = count_of(all) > count_of(more) || count_of(more) > STRETCH_MAX;
    *rest = stays ? more : all;
    return stays ? all : more;
}

bool stretch_free(heap_t *h, void *block) {
    hk_assert(!hardened_is_on());
    if (!may_keep(h, block))
        return large_free(&h->large, block, !limit_is_near());
    if (!large_end(&h->large, block))
        return false;
    /* Another thread may have freed it before, and this was another run by then. */
    const uint64_t more = word_of((slot_t)map_slot(block), large_run(block)->slot_count);
    h->stretch_credit >>= 1;
    uint64_t all = atomic_load_explicit(&h->stretch, memory_order_relaxed), next, rest;
    do
        next = joined(all, more, &rest);
    while (!atomic_compare_exchange_weak_explicit(&h->stretch, &all, next, memory_order_release, memory_order_relaxed));
    to_pool(rest);
    return true;
}

void stretch_give_back(heap_t *h) { to_pool(atomic_exchange_explicit(&h->stretch, 0, memory_order_acquire)); }
