/* SPDX-License-Identifier: MIT */
#include "heap/slot_cache.h"

#include "core/options.h"
#include "core/panic.h"
#include "heap/budget.h"
#include "large/large.h"
#include "limit/limit.h"
#include "region/region.h"

#define FEW_BYTES (8 * HK_MIB) /* beside more runs than that, it counts where a run lies */
#define FRESH     (UINT64_C(1) << 63)

enum {
    FEW_WORDS = 4, /* that are used where nobody waits */
    SHORT = 4,     /* slots of a run: to serve such a run, a visit of the pool costs much. */
    SPARE = 16,    /* A contended heap takes so many more along, at most. */
    A_WAIT = 8,    /* a visit of the pool that had to wait counts for so many that had not, */
    MANY = 16,     /* ... and by so much more they make it contended, */
    MOST = 48,     /* ... for as many visits at most */
};

static uint64_t word_of(uint32_t superslab, uint32_t mask) { return (uint64_t)superslab << 32 | mask; }
static uint32_t superslab_of(uint64_t word) { return (uint32_t)((word & ~FRESH) >> 32); }
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
    if (mask_of(word) != 0)
        slots_free_mask(superslab_of(word), mask_of(word), (word & FRESH) == 0);
}

void slot_cache_give_back(heap_t *h) {
    for (unsigned i = 0; i < HEAP_SLOT_WORDS; i++)
        if (mask_of(word_at(h, i)) != 0) /* the record of a heap that rests is not written */
            to_pool(atomic_exchange_explicit(&h->slot_cache[i], 0, memory_order_acquire));
}

static heap_t *heap_of_counts(large_counts_t *counts) { return (heap_t *)((char *)counts - offsetof(heap_t, large)); }

/* Its thread had to wait for the pool's lock, and more than now and then. */
static bool is_contended(const heap_t *h) { return hk_read(h->waits) >= MANY; }

static void note_visit(heap_t *h, bool waited) {
    const unsigned waits = hk_read(h->waits);
    hk_assert(waits <= MOST);
    if (waited || waits > 0)
        hk_write(h->waits, (uint8_t)(waited ? hk_min(waits + A_WAIT, MOST) : waits - 1));
    if (waits == MANY && !waited) /* most of its words are not looked at any more */
        slot_cache_give_back(h);
}

/* Each word costs a look, and few do where nobody waits. */
static unsigned words(const heap_t *h) { return is_contended(h) ? HEAP_SLOT_WORDS : FEW_WORDS; }

HK_INLINE size_t bytes_in(const heap_t *h, unsigned count) {
    size_t sum = 0;
    _Static_assert(HEAP_SLOT_WORDS % 2 == 0 && FEW_WORDS % 2 == 0,
                   "two are counted at once: the oldest x86-64 counts in many steps");
    for (unsigned i = 0; i < count; i += 2)
        sum += hk_popcount64(word_at(h, i) << 32 | mask_of(word_at(h, i + 1)));
    return sum << HK_SLOT_SHIFT;
}

size_t slot_cache_bytes(const heap_t *h) { return bytes_in(h, HEAP_SLOT_WORDS); }

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
    const unsigned used = words(h);
    place_t best = {.index = HEAP_SLOT_WORDS, .length = SLOTS + 1};
    for (unsigned i = 0; i < used; i++) {
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

static size_t slots_for(size_t size) { return (size + HK_SLOT_SIZE - 1) >> HK_SLOT_SHIFT; }

/* Acquire: another thread may have put the slots in, which has used them. */
static bool cut(heap_t *h, unsigned i, uint64_t word, uint32_t mask) {
    hk_assert((mask & ~mask_of(word)) == 0);
    return atomic_compare_exchange_weak_explicit(&h->slot_cache[i], &word, word & ~(uint64_t)mask, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* What is fresh is resident from now on. */
static void count_growth(uint64_t word, size_t slots) {
    if ((word & FRESH) != 0)
        pool_purge_for_growth(slots);
}

static void *take(heap_t *h, size_t size, bool *zeroed) {
    hk_assert(size > 0);
    const size_t count = slots_for(size);
    place_t place;
    do {
        place = place_for(h, count);
        if (place.index == HEAP_SLOT_WORDS)
            return NULL;
    } while (!cut(h, place.index, place.word, part(place.first, (unsigned)count)));
    if (zeroed != NULL)
        *zeroed = (place.word & FRESH) != 0;
    count_growth(place.word, count);
    return large_begin(&h->large, superslab_of(place.word) * SLOTS + place.first, count);
}

bool slot_cache_extend(heap_t *h, void *block, size_t size) {
    const size_t have = large_size(block) >> HK_SLOT_SHIFT, extra = slots_for(size) - have;
    const slot_t end = (slot_t)(map_slot(block) + have);
    hk_assert(slots_for(size) > have);
    if (h == NULL || large_run(block)->taker != &h->large || !large_is_plain(block) || end % SLOTS == 0 ||
        end % SLOTS + extra > SLOTS)
        return false;
    const uint32_t mask = part(end % SLOTS, (unsigned)extra);
    for (unsigned i = 0; i < HEAP_SLOT_WORDS; i++) {
        const uint64_t word = word_at(h, i);
        if (superslab_of(word) == end / SLOTS && (mask_of(word) & mask) == mask && cut(h, i, word, mask)) {
            count_growth(word, extra);
            large_extend(&h->large, block, extra, (word & FRESH) != 0);
            return true;
        }
    }
    return false;
}

void slot_cache_make_way(heap_t *h, const void *block) {
    if (h != NULL)
        slot_cache_give_back(h);
    slot_cache_give_back(heap_of_counts(large_run(block)->taker));
}

/* --- Free --------------------------------------------------------------------------------------------------------- */

/* Of the runs that the heap's thread took. Read by others while it counts: never less than nothing. */
static size_t live_bytes(const heap_t *h) {
    const int64_t bytes = (int64_t)(large_live_bytes(&h->large) - hk_read(h->runs_before));
    return bytes > 0 ? (size_t)bytes : 0;
}

/* Whether a run of so many slots had better not go to the pool. */
static bool is_dear(const heap_t *h, size_t slots) { return slots <= SHORT && is_contended(h); }

/* When oversubscribed, a thread that waits for a processor would keep slots from others: so only short runs are kept,
 * and by threads that wait for the pool. */
HK_INLINE bool may_keep(const heap_t *h, size_t slots) {
    const heap_press_t press = heap_press();
    return (press == HEAP_ROOM || (press == HEAP_OVERSUBSCRIBED && is_dear(h, slots) && !limit_is_near())) &&
           !region_is_near_limit() && hk_option(HK_OPT_PURGE_DELAY) != 0;
}

/* Bytes that it may keep, where `bytes` were live till now. To the counts of runs, those in magazines are live; so what
 * all its magazines can hold is no reason to keep more. */
static size_t room(const heap_t *h, size_t bytes) {
    const size_t live = live_bytes(h) + bytes;
    return live <= FEW_BYTES || is_dear(h, bytes >> HK_SLOT_SHIFT)
               ? budget_slot_bytes(live - hk_min(live, h->magazine_bytes))
               : 0;
}

/* Bytes that the heap of another thread may keep. That thread alone knows what its magazines can hold, so it is the
 * least that a heap may. */
static size_t room_for_others(const heap_t *h, size_t bytes) {
    const uint32_t life = atomic_load_explicit(&h->life, memory_order_relaxed);
    const bool may = live_bytes(h) + bytes <= FEW_BYTES || is_dear(h, bytes >> HK_SLOT_SHIFT);
    return life == HEAP_LIVE && may ? budget_slot_bytes(0) : 0;
}

/* The word for `count` slots of the superslab: its own, or the one with the fewest if these are fewer. */
HK_INLINE unsigned word_for(const heap_t *h, uint32_t superslab, unsigned count) {
    const unsigned used = words(h);
    unsigned least = HEAP_SLOT_WORDS;
    for (unsigned i = 0; i < used; i++)
        if (superslab_of(word_at(h, i)) == superslab)
            return i;
    for (unsigned i = 0; i < used; i++) {
        const unsigned has = count_of(word_at(h, i));
        if (has < count) {
            least = i;
            count = has;
        }
    }
    return least;
}

/* The slots of `brought` go into word `i`: to those of the same superslab, or in place of another's, which go to the
 * pool. */
HK_INLINE void put(heap_t *home, unsigned i, uint64_t brought) {
    uint64_t word = word_at(home, i), joined;
    do
        joined = superslab_of(word) == superslab_of(brought) && mask_of(word) != 0
                     ? (brought | mask_of(word)) & (word | ~FRESH)
                     : brought;
    while (!atomic_compare_exchange_weak_explicit(&home->slot_cache[i], &word, joined, memory_order_acq_rel,
                                                  memory_order_relaxed));
    if (superslab_of(word) != superslab_of(brought))
        to_pool(word);
}

static unsigned fullest_word(const heap_t *h) {
    const unsigned used = words(h);
    unsigned fullest = 0;
    for (unsigned i = 1; i < used; i++)
        if (count_of(word_at(h, i)) > count_of(word_at(h, fullest)))
            fullest = i;
    return fullest;
}

/* Slots [first, first + count) go to the heap `home`, which has so many bytes by then; or to the pool, and 0 is
 * returned. Of a thread that waits for the pool, those of a whole word go there at once. */
static size_t bring(heap_t *home, bool is_own, slot_t first, uint32_t count) {
    const uint32_t superslab = first / SLOTS;
    const size_t bytes = (size_t)count << HK_SLOT_SHIFT, kept = bytes_in(home, words(home)) + bytes;
    const size_t may_have = is_own ? room(home, bytes) : room_for_others(home, bytes);
    unsigned i = HEAP_SLOT_WORDS;
    if (kept <= may_have && first % SLOTS + count <= SLOTS)
        i = word_for(home, superslab, count);
    if (i == HEAP_SLOT_WORDS && bytes <= may_have && first % SLOTS + count <= SLOTS && is_dear(home, count)) {
        i = fullest_word(home);
        to_pool(atomic_exchange_explicit(&home->slot_cache[i], 0, memory_order_acquire));
    }
    if (i == HEAP_SLOT_WORDS) {
        slots_free_for_reuse(first, count);
        return 0;
    }
    put(home, i, word_of(superslab, part(first % SLOTS, count)));
    return kept;
}

/* Slots that the heap may keep besides what it has, once a run of so many lives. */
static unsigned spare_room(const heap_t *h, size_t slots) {
    if (!is_dear(h, slots) || !may_keep(h, slots) || hardened_is_on())
        return 0;
    const size_t most = room(h, slots << HK_SLOT_SHIFT), kept = bytes_in(h, words(h));
    return (unsigned)hk_min((most - hk_min(most, kept)) >> HK_SLOT_SHIFT, SPARE);
}

void *slot_cache_alloc(heap_t *h, size_t size, size_t align, bool *zeroed) {
    void *block = align <= HK_SLOT_SIZE ? take(h, size, zeroed) : NULL;
    if (block != NULL)
        return block;
    slots_spare_t spare = {.most = spare_room(h, slots_for(size))};
    block = large_alloc_with_spare(&h->large, size, align, zeroed, &spare);
    note_visit(h, spare.waited);
    if (spare.mask == 0)
        return block;
    unsigned i = word_for(h, spare.superslab, hk_popcount32(spare.mask));
    put(h, i < HEAP_SLOT_WORDS ? i : fullest_word(h), word_of(spare.superslab, spare.mask) | (spare.fresh ? FRESH : 0));
    return block;
}

bool slot_cache_free(heap_t *h, void *block, size_t *kept) {
    hk_assert(!hardened_is_on());
    *kept = 0;
    if (!may_keep(h, large_size(block) >> HK_SLOT_SHIFT) || !large_is_plain(block))
        return large_free(&h->large, block, !limit_is_near());
    if (!large_end(&h->large, block))
        return false;
    /* The record is read now: another thread may have freed the block before, and this was another run by then. */
    large_counts_t *taker = large_run(block)->taker;
    const bool is_own = taker == &h->large && taker->of_one_thread; /* from the shared heap's nobody would take them */
    *kept = bring(heap_of_counts(taker), is_own, (slot_t)map_slot(block), large_run(block)->slot_count);
    return true;
}
