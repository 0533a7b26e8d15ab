/* SPDX-License-Identifier: MIT
 *
 * chance.h: which bytes are sampled, and what a sampled block stands for. Pure functions, in integers: a malloc must
 * not touch the program's floating-point flags.
 *
 * Bytes are sampled one by one, each with the same small chance: a Poisson process with a sample in R = 2^log2 bytes on
 * average. A block of S bytes is sampled when any of its bytes is, with the probability p = 1 - exp(-S / R), and then
 * stands for 1 / p blocks. With log2 0 every block is sampled, and p is 1.
 */
#pragma once

#include "base/base.h"

enum {
    CHANCE_LOG2_MAX = 40,
    CHANCE_ONE_SHIFT = 62, /* a probability of 1 is 1 << 62 */
};

/* Bytes from the last sample, or from anywhere, to the byte that is sampled next. */
int64_t chance_distance(uint64_t *state, unsigned log2);

/* p of a block of so many bytes (1 or more). */
uint64_t chance_of(uint64_t size, unsigned log2);

/* What a sampled block stands for, in the units of format.h. */
typedef struct chance_weight {
    uint64_t bytes, objects;
} chance_weight_t;

chance_weight_t chance_weight(uint64_t size, unsigned log2);

/* True with the probability to / from, of two probabilities. */
bool chance_stays(uint64_t *state, uint64_t from, uint64_t to);
