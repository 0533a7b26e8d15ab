/* SPDX-License-Identifier: MIT */
#include "heap/slot_cache.h"

#include "core/options.h"
#include "core/panic.h"
#include "heap/budget.h"
#include "large/large.h"
#include "limit/limit.h"
#include "region/region.h"

#define FEW_BYTES (8 * HK_MIB) /* beside more runs than that, it counts where a run lies */

static uint64_t word_of(uint32_t superslab, uint32_t mask) { return (uint64_t)superslab << 32 | mask; }
static uint32_t superslab_of(uint64_t word) { return (uint32_t)(word >> 32); }
static uint32_t mask_of(uint64_t word) { return (uint32_t)word; }
static uint64_t word_at(const heap_t *h, unsigned i) {
    return atomic_load_explicit(&h->slot_cache[i], memory_order_relaxed);
}

static unsigned count_of(uint64_t word) { return hk_popcount32(mask_of(word)); }

static uint32_t part(unsigned first, unsigned count) {
    hk_assert(count > 0 && first + count <= SLOTS);
    return (uint32_t)(((UINT64_C(1) << count) - 1) << first);
}

/* Free slots in the mask from the first on, which is one. */
static unsigned length_at(uint32_t mask, unsigned first) {
    hk_assert(mask >> first & 1);
    return hk_ctz64(~(uint64_t)(mask >> first));
}

static void to_pool(uint64_t word) {
    unsigned first, count;
    for (uint32_t mask = mask_of(word); mask != 0; mask &= ~part(first, count)) {
        first = hk_ctz64(mask);
        count = length_at(mask, first);
        slots_free_for_reuse(superslab_of(word) * SLOTS + first, count);
    }
}

void slot_cache_give_back(heap_t *h) {
    for (unsigned i = 0; i < HEAP_SLOT_WORDS; i++)
        if (mask_of(word_at(h, i)) != 0) /* the record of a heap that rests is not written */
            to_pool(atomic_exchange_explicit(&h->slot_cache[i], 0, memory_order_acquire));
}

static heap_t *heap_of_counts(large_counts_t *counts) { return (heap_t *)((char *)counts - offsetof(heap_t, large)); }

void slot_cache_make_way(heap_t *h, const void *block) {
    if (h != NULL)
        slot_cache_give_back(h);
    slot_cache_give_back(heap_of_counts(large_run(block)->taker));
}

size_t slot_cache_bytes(const heap_t *h) {
    size_t sum = 0;
    _Static_assert(HEAP_SLOT_WORDS % 2 == 0, "two are counted at once: the oldest x86-64 counts in many steps");
    for (unsigned i = 0; i < HEAP_SLOT_WORDS; i += 2)
        sum += hk_popcount64(word_at(h, i) << 32 | mask_of(word_at(h, i + 1)));
    return sum << HK_SLOT_SHIFT;
}

size_t slot_caches_bytes(void) {
    size_t sum = 0;
    for (uint32_t id = HK_OWNER_SHARED; id < heap_limit(); id++)
        sum += slot_cache_bytes(heap_by_id(id));
    return sum;
}

/* --- Take --------------------------------------------------------------------------------------------------------- */

typedef struct place {
    unsigned index; /* of the word; HEAP_SLOT_WORDS: none serves */
    uint64_t word;
    unsigned first, length;
} place_t;

/* Slots at which `count` free ones begin. In steps that double: most masks have none, and that is seen at once. */
static uint32_t serving(uint32_t mask, size_t count) {
    hk_assert(count > 0);
    if (count > SLOTS)
        return 0;
    for (unsigned have = 1, step; have < count; have += step) {
        step = (unsigned)hk_min(have, count - have);
        mask &= mask >> step;
    }
    return mask;
}

/* The shortest stretch that serves: what is longer is there for longer runs. */
static place_t place_for(const heap_t *h, size_t count) {
    place_t best = {.index = HEAP_SLOT_WORDS, .length = SLOTS + 1};
    for (unsigned i = 0; i < HEAP_SLOT_WORDS; i++) {
        const uint64_t word = word_at(h, i);
        unsigned first, length;
        for (uint32_t mask = serving(mask_of(word), count); mask != 0;
             mask &= ~part(first, length - (unsigned)count + 1)) {
            first = hk_ctz64(mask);
            length = length_at(mask_of(word), first);
            if (length >= best.length)
                continue;
            best = (place_t){i, word, first, length};
            if (length == count)
                return best;
        }
    }
    return best;
}

void *slot_cache_take(heap_t *h, size_t size, size_t align, bool *zeroed) {
    hk_assert(size > 0);
    const size_t count = (size + HK_SLOT_SIZE - 1) >> HK_SLOT_SHIFT;
    place_t place;
    uint64_t rest;
    do {
        place = place_for(h, count);
        if (place.index == HEAP_SLOT_WORDS || align > HK_SLOT_SIZE)
            return NULL;
        rest = place.word & ~(uint64_t)part(place.first, (unsigned)count);
        /* Acquire: another thread may have put the slots in, which has used them. */
    } while (!atomic_compare_exchange_weak_explicit(&h->slot_cache[place.index], &place.word, rest,
                                                    memory_order_acquire, memory_order_relaxed));
    if (h->served < h->asked)
        h->served++;
    if (zeroed != NULL)
        *zeroed = false;
    return large_begin(&h->large, superslab_of(place.word) * SLOTS + place.first, count);
}

/* --- Free --------------------------------------------------------------------------------------------------------- */

/* Of the runs that the heap's thread took. Read by others while it counts: never less than nothing. */
static size_t live_bytes(const heap_t *h) {
    const int64_t bytes = (int64_t)(large_live_bytes(&h->large) - hk_read(h->runs_before));
    return bytes > 0 ? (size_t)bytes : 0;
}

static bool may_keep(const void *block) {
    return large_is_plain(block) && heap_press() == HEAP_ROOM && !region_is_near_limit() &&
           hk_option(HK_OPT_PURGE_DELAY) != 0;
}

/* What it takes of `kept` bytes, `bytes` of which were live till now. To the counts of runs, those in magazines are
 * live; so what all its magazines can hold is no reason to keep more. */
static bool has_room(const heap_t *h, size_t bytes, size_t kept) {
    const size_t live = live_bytes(h) + bytes;
    return live <= FEW_BYTES && kept <= budget_slot_bytes(live - hk_min(live, h->magazine_bytes));
}

/* has_room for the heap of another thread. Only that thread knows what its magazines can hold, so the least is kept. */
static bool has_room_for_others(const heap_t *h, size_t bytes, size_t kept) {
    const uint32_t life = atomic_load_explicit(&h->life, memory_order_relaxed);
    return life == HEAP_LIVE && live_bytes(h) + bytes <= FEW_BYTES && kept <= budget_slot_bytes(0);
}

/* The word for `count` slots of the superslab: its own, or the one with the fewest if these are fewer. */
static unsigned word_for(const heap_t *h, uint32_t superslab, unsigned count) {
    unsigned least = HEAP_SLOT_WORDS;
    for (unsigned i = 0; i < HEAP_SLOT_WORDS; i++)
        if (superslab_of(word_at(h, i)) == superslab)
            return i;
    for (unsigned i = 0; i < HEAP_SLOT_WORDS; i++) {
        const unsigned has = count_of(word_at(h, i));
        if (has < count) {
            least = i;
            count = has;
        }
    }
    return least;
}

/* Slots [first, first + count) go to the heap `home`, which has so many bytes by then; or to the pool, and 0 is
 * returned. */
static size_t bring(heap_t *home, bool is_own, slot_t first, uint32_t count) {
    const uint32_t superslab = first / SLOTS;
    const size_t bytes = (size_t)count << HK_SLOT_SHIFT, kept = slot_cache_bytes(home) + bytes;
    const bool fits = is_own ? has_room(home, bytes, kept) : has_room_for_others(home, bytes, kept);
    unsigned i = HEAP_SLOT_WORDS;
    if (fits && first % SLOTS + count <= SLOTS)
        i = word_for(home, superslab, count);
    if (i == HEAP_SLOT_WORDS) {
        slots_free_for_reuse(first, count);
        return 0;
    }
    uint64_t word = word_at(home, i);
    uint32_t others;
    do
        others = superslab_of(word) == superslab ? mask_of(word) : 0;
    while (!atomic_compare_exchange_weak_explicit(&home->slot_cache[i], &word,
                                                  word_of(superslab, others | part(first % SLOTS, count)),
                                                  memory_order_acq_rel, memory_order_relaxed));
    if (superslab_of(word) != superslab)
        to_pool(word);
    return kept;
}

bool slot_cache_free(heap_t *h, void *block, size_t *kept) {
    hk_assert(!hardened_is_on());
    *kept = 0;
    if (!may_keep(block))
        return large_free(&h->large, block, !limit_is_near());
    if (!large_end(&h->large, block))
        return false;
    /* The record is read now: another thread may have freed the block before, and this was another run by then. */
    large_counts_t *taker = large_run(block)->taker;
    const bool is_own = taker == &h->large && taker->of_one_thread; /* from the shared heap's nobody would take them */
    *kept = bring(heap_of_counts(taker), is_own, (slot_t)map_slot(block), large_run(block)->slot_count);
    return true;
}
