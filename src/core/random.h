/* SPDX-License-Identifier: MIT
 *
 * random.h: numbers that nobody can foretell: ChaCha with 8 rounds, four blocks at a time (D. J. Bernstein, 2008; J.-P.
 * Aumasson, "Too much crypto", 2019, on the rounds).
 *
 * Each generator belongs to one thread, or to a lock. The first of the bytes that it makes become its next key, so that
 * a reader of its memory learns nothing of what it gave before. The child of a fork goes on with its parent's numbers
 * until its generator is stirred.
 */
#pragma once

#include "base/base.h"

enum { HK_RANDOM_VALUES = 224 };

typedef struct hk_random {
    uint32_t left; /* values that are still to be given */
    uint32_t key[8];
    uint8_t values[HK_RANDOM_VALUES];
} hk_random_t;

/* The next of a sequence that can be foretold; `*state` is not 0 (xorshift64*: S. Vigna, "An experimental exploration
 * of Marsaglia's xorshift generators, scrambled", 2016). */
uint64_t hk_xorshift(uint64_t *state);

/* Adds a key from the kernel to the generator's own, which is zeros at first. */
void hk_random_stir(hk_random_t *random);

void hk_random_fill(hk_random_t *random);

/* A number below `bound`, at most 2^8: some come once more in 2^8 times than others. There is one left. */
HK_INLINE uint32_t hk_random_left_below(hk_random_t *random, uint32_t bound) {
    return random->values[--random->left] * bound >> 8;
}

HK_INLINE uint32_t hk_random_below(hk_random_t *random, uint32_t bound) {
    if (hk_unlikely(random->left == 0))
        hk_random_fill(random);
    return hk_random_left_below(random, bound);
}
