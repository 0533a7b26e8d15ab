/* SPDX-License-Identifier: MIT */
#include "sample/chance.h"

#include "base/bits.h"
#include "core/random.h"
#include "sample/format.h"

typedef unsigned __int128 wide_t;

enum { LOG_SHIFT = 32 };

#define ONE         (UINT64_C(1) << CHANCE_ONE_SHIFT)
#define LN_2        UINT64_C(2977044472) /* ln 2 in units of 2^-32 */
#define LARGE_RATIO 48                   /* S / R from here on: 1 - p is below 2^-64 */

/* log2(x), in units of 2^-32: the integer part by the highest bit, then a bit for each squaring. */
static uint64_t log2_of(uint64_t x) {
    unsigned top = hk_msb64(x);
    uint64_t mantissa = x << (63 - top), result = (uint64_t)top << LOG_SHIFT; /* from 1 to 2, in units of 2^-63 */
    for (unsigned bit = LOG_SHIFT; bit-- > 0;) {
        wide_t square = (wide_t)mantissa * mantissa >> 63;
        bool above = (square >> 64) != 0;
        mantissa = (uint64_t)(above ? square >> 1 : square);
        result |= (uint64_t)above << bit;
    }
    return result;
}

/* By 1 to 63 bits. For shifts of 128 bits by a variable compilers call a function, on aarch64. */
static wide_t shifted_right(wide_t x, unsigned bits) {
    uint64_t high = (uint64_t)(x >> 64), low = (uint64_t)x;
    return (wide_t)(high >> bits) << 64 | (low >> bits | high << (64 - bits));
}

/* -R ln(u) of a random u from 0 to 1. */
int64_t chance_distance(uint64_t *state, unsigned log2) {
    if (log2 == 0)
        return 0;
    uint64_t u = hk_xorshift(state) | 1; /* in units of 2^-64 */
    wide_t minus_log = ((UINT64_C(64) << LOG_SHIFT) - log2_of(u)) * (wide_t)LN_2;
    return (int64_t)shifted_right(minus_log, 2 * LOG_SHIFT - log2);
}

/* 1 - exp(-x), `x` and the result in units of 2^-62, x up to 1: x - x^2/2! + x^3/3! - ... */
static uint64_t chance_of_small(uint64_t x) {
    uint64_t term = x, sum = x;
    for (unsigned n = 2; term != 0; n++) {
        term = (uint64_t)((wide_t)term * x >> CHANCE_ONE_SHIFT) / n;
        sum = n % 2 == 0 ? sum - term : sum + term;
    }
    return sum;
}

/* p(2x) = p(x) (2 - p(x)): so from an x of at most 1 to any. */
uint64_t chance_of(uint64_t size, unsigned log2) {
    if (log2 == 0 || size >> log2 >= LARGE_RATIO)
        return ONE;
    wide_t x = shifted_right((wide_t)size << CHANCE_ONE_SHIFT, log2);
    unsigned doublings = 0;
    for (; x > ONE; x >>= 1)
        doublings++;
    uint64_t p = chance_of_small((uint64_t)x);
    for (; doublings > 0; doublings--)
        p = (uint64_t)((wide_t)p * (2 * ONE - p) >> CHANCE_ONE_SHIFT);
    return p;
}

/* Without a division of 128 bits, for which compilers call a function. */
chance_weight_t chance_weight(uint64_t size, unsigned log2) {
    enum { SPLIT = 40 }; /* of p: below 2^-22 */
    uint64_t p = chance_of(size, log2);
    chance_weight_t weight;
    if (p >= UINT64_C(1) << SPLIT) {
        uint64_t inverse = (UINT64_C(1) << 63) / (p >> 20); /* 1 / p in units of 2^-21 */
        weight.objects = inverse >> (21 - PROFILE_OBJECTS_SHIFT);
        weight.bytes = (uint64_t)((wide_t)inverse * size >> (21 - PROFILE_BYTES_SHIFT));
    } else { /* S / p is R + S / 2 but for a millionth of S */
        weight.objects = (UINT64_C(1) << 63) / p << (PROFILE_OBJECTS_SHIFT - 1);
        weight.bytes = ((UINT64_C(1) << log2) + size / 2) << PROFILE_BYTES_SHIFT;
    }
    return weight;
}

bool chance_stays(uint64_t *state, uint64_t from, uint64_t to) {
    return (uint64_t)((wide_t)hk_xorshift(state) * from >> 64) < to;
}
