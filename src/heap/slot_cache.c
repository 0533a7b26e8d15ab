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

/* The first stretch of free slots in the mask, which is not 0. */
static unsigned stretch_of(uint32_t mask, unsigned *first) {
    *first = hk_ctz64(mask);
    return hk_ctz64(~(uint64_t)(mask >> *first));
}

static void to_pool(uint64_t word) {
    unsigned first, count;
    for (uint32_t mask = mask_of(word); mask != 0; mask &= ~part(first, count)) {
        count = stretch_of(mask, &first);
        slots_free_for_reuse(superslab_of(word) * SLOTS + first, count);
    }
}

void slot_cache_give_back(heap_t *h) {
    for (unsigned i = 0; i < HEAP_SLOT_WORDS; i++)
        if (mask_of(word_at(h, i)) != 0) /* the record of a heap that rests is not written */
            to_pool(atomic_exchange_explicit(&h->slot_cache[i], 0, memory_order_acquire));
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

/* The shortest stretch that serves: what is longer is there for longer runs. */
static place_t place_for(const heap_t *h, size_t count) {
    place_t best = {.index = HEAP_SLOT_WORDS, .length = SLOTS + 1};
    for (unsigned i = 0; i < HEAP_SLOT_WORDS; i++) {
        const uint64_t word = word_at(h, i);
        unsigned first, length;
        for (uint32_t mask = mask_of(word); mask != 0; mask &= ~part(first, length)) {
            length = stretch_of(mask, &first);
            if (length < count || length >= best.length)
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
    place_t place = place_for(h, count);
    if (place.index == HEAP_SLOT_WORDS || align > HK_SLOT_SIZE)
        return NULL;
    const uint64_t rest = place.word & ~(uint64_t)part(place.first, (unsigned)count);
    /* Relaxed: what the thread cuts off it has put there itself. */
    if (!atomic_compare_exchange_strong_explicit(&h->slot_cache[place.index], &place.word, rest, memory_order_relaxed,
                                                 memory_order_relaxed))
        return NULL;
    if (h->served < h->asked)
        h->served++;
    if (zeroed != NULL)
        *zeroed = false;
    return large_begin(&h->large, superslab_of(place.word) * SLOTS + place.first, count);
}

/* --- Free --------------------------------------------------------------------------------------------------------- */

/* Of the thread's runs. It frees what others took as well, and they what it took: never less than nothing. */
static size_t live_bytes(const heap_t *h) {
    const int64_t bytes = (int64_t)(atomic_load_explicit(&h->large.live_bytes, memory_order_relaxed) - h->runs_before);
    return bytes > 0 ? (size_t)bytes : 0;
}

static bool may_keep(const heap_t *h, const void *block) {
    return h->slot_cache_credit > 0 && live_bytes(h) <= FEW_BYTES && large_is_plain(block) &&
           heap_press() == HEAP_ROOM && !region_is_near_limit() && hk_option(HK_OPT_PURGE_DELAY) != 0;
}

/* To the counts of runs, those in magazines are live; so what all its magazines can hold is no reason to keep more. */
static bool has_room(const heap_t *h, size_t bytes) {
    const size_t live = live_bytes(h) + bytes;
    return slot_cache_bytes(h) + bytes <= budget_slot_bytes(live - hk_min(live, h->magazine_bytes));
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

/* Keeps slots [first, first + count), or passes them on. */
static void keep(heap_t *h, slot_t first, uint32_t count) {
    const uint32_t superslab = first / SLOTS;
    unsigned i = HEAP_SLOT_WORDS;
    if (first % SLOTS + count <= SLOTS && has_room(h, (size_t)count << HK_SLOT_SHIFT))
        i = word_for(h, superslab, count);
    if (i == HEAP_SLOT_WORDS) {
        slots_free_for_reuse(first, count);
        return;
    }
    uint64_t word = word_at(h, i);
    uint32_t kept;
    do
        kept = superslab_of(word) == superslab ? mask_of(word) : 0;
    while (!atomic_compare_exchange_weak_explicit(&h->slot_cache[i], &word,
                                                  word_of(superslab, kept | part(first % SLOTS, count)),
                                                  memory_order_release, memory_order_relaxed));
    if (superslab_of(word) != superslab)
        to_pool(word);
}

bool slot_cache_free(heap_t *h, void *block) {
    hk_assert(!hardened_is_on());
    if (!may_keep(h, block))
        return large_free(&h->large, block, !limit_is_near());
    if (!large_end(&h->large, block))
        return false;
    h->slot_cache_credit >>= 1;
    /* The length is read now: another thread may have freed the block before, and this was another run by then. */
    keep(h, (slot_t)map_slot(block), large_run(block)->slot_count);
    return true;
}
