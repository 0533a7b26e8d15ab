/* SPDX-License-Identifier: MIT */
#include "core/random.h"

#include "sys/sys.h"

#include <string.h>

enum { WORDS = 16, BLOCKS = 4, DOUBLE_ROUNDS = 4 };

/* A word of each of the four blocks. */
typedef uint32_t __attribute__((vector_size(4 * BLOCKS))) quarter_t;

static quarter_t rotated(quarter_t x, int by) { return x << by | x >> (32 - by); }

static void quarter_round(quarter_t *a, quarter_t *b, quarter_t *c, quarter_t *d) {
    *a += *b, *d = rotated(*d ^ *a, 16);
    *c += *d, *b = rotated(*b ^ *c, 12);
    *a += *b, *d = rotated(*d ^ *a, 8);
    *c += *d, *b = rotated(*b ^ *c, 7);
}

static void double_round(quarter_t x[WORDS]) {
    for (unsigned i = 0; i < 4; i++)
        quarter_round(&x[i], &x[4 + i], &x[8 + i], &x[12 + i]);
    for (unsigned i = 0; i < 4; i++)
        quarter_round(&x[i], &x[4 + (i + 1) % 4], &x[8 + (i + 2) % 4], &x[12 + (i + 3) % 4]);
}

uint64_t hk_xorshift(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

void hk_random_fill(hk_random_t *random) {
    static const uint32_t constants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    quarter_t start[WORDS], x[WORDS];
    for (unsigned i = 0; i < 4; i++)
        start[i] = constants[i] - (quarter_t){0};
    for (unsigned i = 0; i < 8; i++)
        start[4 + i] = random->key[i] - (quarter_t){0};
    start[12] = (quarter_t){0, 1, 2, 3}; /* the counter: each key makes four blocks */
    start[13] = start[14] = start[15] = (quarter_t){0};
    memcpy(x, start, sizeof x);
    for (unsigned i = 0; i < DOUBLE_ROUNDS; i++)
        double_round(x);
    for (unsigned i = 0; i < WORDS; i++)
        x[i] += start[i];
    _Static_assert(sizeof random->key + sizeof random->values == sizeof x, "all that is made is used");
    memcpy(random->key, x, sizeof random->key);
    memcpy(random->values, (const char *)x + sizeof random->key, sizeof random->values);
    random->left = HK_RANDOM_VALUES;
}

void hk_random_stir(hk_random_t *random) {
    uint32_t fresh[sizeof random->key / sizeof random->key[0]];
    sys_random(fresh, sizeof fresh);
    for (size_t i = 0; i < sizeof fresh / sizeof fresh[0]; i++)
        random->key[i] ^= fresh[i];
    random->left = 0;
}
