/* SPDX-License-Identifier: MIT */
#include "region/index.h"

#include "base/bits.h"
#include "core/panic.h"

enum {
    FLOOR_SHIFT = INDEX_SUM_SHIFT - INDEX_WORD_SHIFT, /* of one floor a sum has 64 of the floor below */
    FLOORS = 3,                                       /* words, and two of sums */
};
#define LOW_SUMS  (INDEX_SUPERSLABS_MAX >> (INDEX_WORD_SHIFT + FLOOR_SHIFT))
#define HIGH_SUMS (LOW_SUMS >> FLOOR_SHIFT)

/* In superslabs. */
typedef struct sum {
    uint32_t prefix, suffix, longest;
} sum_t;

/* A sum of the lower floor, which is of 4,096 superslabs. */
typedef struct low_sum {
    uint16_t prefix, suffix, longest;
} low_sum_t;
_Static_assert(INDEX_WORD_SHIFT + FLOOR_SHIFT < 16, "its numbers have 16 bits");

static index_word_t *words;
static low_sum_t low_sums[LOW_SUMS] HK_RARE; /* but for the first ones */
static sum_t high_sums[HIGH_SUMS];

static unsigned shift_of(unsigned stair) { return INDEX_WORD_SHIFT + stair * FLOOR_SHIFT; }

/* Of the `size` lowest bits; those above are 0. */
static sum_t sum_of_bits(uint64_t bits, unsigned size) {
    if (bits == 0)
        return (sum_t){0};
    if (bits == hk_low_mask64(size))
        return (sum_t){size, size, size};
    uint32_t longest = 0;
    for (uint64_t left = bits; left != 0; left &= left << 1)
        longest++;
    return (sum_t){hk_ctz64(~bits), 63 - hk_msb64(~(bits << (64 - size))), longest};
}

static sum_t sum_at(unsigned stair, size_t superslab) {
    size_t at = superslab >> shift_of(stair);
    if (stair == 0)
        return sum_of_bits(words[at].available, 64);
    if (stair == 1)
        return (sum_t){low_sums[at].prefix, low_sums[at].suffix, low_sums[at].longest};
    return high_sums[at];
}

/* `sum` is that of the `size` superslabs before; those of `next` come behind them. */
static void append(sum_t *sum, uint32_t size, sum_t next, uint32_t next_size) {
    uint32_t across = sum->suffix + next.prefix;
    if (sum->prefix == size)
        sum->prefix += next.prefix;
    uint32_t longest = sum->longest > next.longest ? sum->longest : next.longest;
    sum->longest = longest > across ? longest : across;
    sum->suffix = next.suffix == next_size ? sum->suffix + next_size : next.suffix;
}

/* The sum of the part of a floor that the superslab is in, from the floor below. */
static sum_t sum_below(unsigned stair, size_t superslab) {
    size_t from = hk_align_down(superslab, (size_t)1 << shift_of(stair));
    uint32_t step = UINT32_C(1) << shift_of(stair - 1), all = UINT32_C(1) << shift_of(stair);
    sum_t sum = {0};
    for (uint32_t size = 0; size < all; size += step)
        append(&sum, size, sum_at(stair - 1, from + size), step);
    return sum;
}

static void add_up(size_t first, size_t count) {
    for (size_t at = first >> shift_of(1); at <= (first + count - 1) >> shift_of(1); at++) {
        sum_t sum = sum_below(1, at << shift_of(1));
        low_sums[at] = (low_sum_t){(uint16_t)sum.prefix, (uint16_t)sum.suffix, (uint16_t)sum.longest};
    }
    for (size_t at = first >> shift_of(2); at <= (first + count - 1) >> shift_of(2); at++)
        high_sums[at] = sum_below(2, at << shift_of(2));
}

void index_init(index_word_t *at) { words = at; }

void index_set(size_t first, size_t count, index_kind_t kind) {
    hk_assert(count > 0 && first + count <= INDEX_SUPERSLABS_MAX);
    bool available = kind == INDEX_UNCLAIMED || kind == INDEX_FREE, claimed = kind == INDEX_FREE || kind == INDEX_USED;
    bool changed = false;
    for (size_t at = first, more; at < first + count; at += more) {
        more = hk_min(first + count - at, 64 - at % 64);
        uint64_t mask = hk_low_mask64((unsigned)more) << (at % 64);
        index_word_t *word = &words[at / 64];
        changed |= (available ? ~word->available & mask : word->available & mask) != 0;
        word->available = available ? word->available | mask : word->available & ~mask;
        word->claimed = claimed ? word->claimed | mask : word->claimed & ~mask;
    }
    if (changed)
        add_up(first, count);
}

/* The superslabs of a word that are of the kind. */
static uint64_t of_kind(const index_word_t *word, index_kind_t kind) {
    switch (kind) {
    case INDEX_UNKNOWN:
        return ~(word->available | word->claimed);
    case INDEX_UNCLAIMED:
        return word->available & ~word->claimed;
    case INDEX_FREE:
        return word->available & word->claimed;
    case INDEX_USED:
        return word->claimed & ~word->available;
    default:
        return word->available;
    }
}

static size_t next_where(size_t from, size_t limit, index_kind_t kind, uint64_t flip) {
    for (size_t at = from; at < limit; at = hk_align_down(at, 64) + 64) {
        uint64_t left = (of_kind(&words[at / 64], kind) ^ flip) >> (at % 64);
        if (left != 0)
            return hk_min(at + hk_ctz64(left), limit);
    }
    return limit;
}

size_t index_next(size_t from, size_t limit, index_kind_t kind) { return next_where(from, limit, kind, 0); }

size_t index_end(size_t from, size_t limit, index_kind_t kind) { return next_where(from, limit, kind, ~UINT64_C(0)); }

bool index_next_run(size_t *first, size_t *end, size_t limit, index_kind_t kind) {
    *first = index_next(*end, limit, kind);
    *end = index_end(*first, limit, kind);
    return *first < limit;
}

void index_set_vacant(size_t superslab, bool vacant) {
    uint64_t *word = &words[superslab / 64].vacant;
    *word = (*word & ~(UINT64_C(1) << superslab % 64)) | (uint64_t)vacant << superslab % 64;
}

size_t index_vacant_end(size_t from, size_t limit) {
    for (size_t at = from; at < limit; at = hk_align_down(at, 64) + 64) {
        uint64_t others = ~words[at / 64].vacant >> at % 64;
        if (others != 0)
            return hk_min(at + hk_ctz64(others), limit);
    }
    return limit;
}

size_t index_vacant_begin(size_t to) {
    for (size_t at = to; at > 0; at = hk_align_down(at - 1, 64)) {
        uint64_t others = ~words[(at - 1) / 64].vacant << (63 - (at - 1) % 64);
        if (others != 0)
            return at - (63 - hk_msb64(others));
    }
    return 0;
}

/* The largest part that begins at `at` and need not be looked into: that which ends the search, or has no run that
 * long. */
static sum_t look_at(size_t at, size_t run, size_t count, unsigned *stair) {
    *stair = at % ((size_t)1 << shift_of(2)) == 0 ? 2u : at % ((size_t)1 << shift_of(1)) == 0 ? 1u : 0u;
    for (; *stair > 0; --*stair) {
        sum_t sum = sum_at(*stair, at);
        if (run + sum.prefix >= count || sum.longest < count)
            return sum;
    }
    return sum_of_bits(words[at / 64].available >> (at % 64), 64 - (unsigned)(at % 64));
}

size_t index_find(size_t from, size_t limit, size_t count) {
    hk_assert(count > 0);
    size_t start = from; /* [start, at) is available */
    for (size_t at = from; at < limit;) {
        unsigned stair;
        sum_t sum = look_at(at, at - start, count, &stair);
        size_t size = stair == 0 ? 64 - at % 64 : (size_t)1 << shift_of(stair);
        if (at - start + sum.prefix >= count)
            return start;
        if (sum.longest >= count)
            return at + hk_ctz64(hk_stretches64(words[at / 64].available >> (at % 64), (unsigned)count));
        if (sum.prefix < size)
            start = at + size - sum.suffix;
        at += size;
    }
    return 0;
}

bool index_check(size_t limit) {
    bool right = true;
    for (unsigned stair = 1; stair < FLOORS; stair++)
        for (size_t at = 0; at < limit; at += (size_t)1 << shift_of(stair)) {
            sum_t is = sum_at(stair, at), should_be = sum_below(stair, at);
            right &= is.prefix == should_be.prefix && is.suffix == should_be.suffix && is.longest == should_be.longest;
        }
    return right;
}
