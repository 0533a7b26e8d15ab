/* SPDX-License-Identifier: MIT
 *
 * The generator gives ChaCha8's numbers, each of its keys is another, and all values come about as often.
 */
#include "check.h"
#include "core/random.h"

/* ChaCha8, 256 bits of key, all zeros as the nonce: the first 16 bytes. Source: draft-strombergson-chacha-test-vectors,
 * TC1. */
static void known_numbers(void) {
    static const uint8_t expected[16] = {0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6,
                                         0x7f, 0x5b, 0xb8, 0xe8, 0x1f, 0x09, 0xa5, 0xa1};
    hk_random_t random = {0};
    hk_random_fill(&random);
    /* A word of each of four blocks at a time; the first two words become the key. */
    CHECK(memcmp(&random.key[0], expected, 4) == 0 && memcmp(&random.key[4], expected + 4, 4) == 0);
    CHECK(memcmp(&random.values[0], expected + 8, 4) == 0 && memcmp(&random.values[16], expected + 12, 4) == 0);
}

static void even(void) {
    enum { BOUND = 64, TURNS = 64000 };
    unsigned seen[BOUND] = {0};
    hk_random_t random = {0}, other = {0};
    hk_random_stir(&random);
    hk_random_stir(&other);
    CHECK(memcmp(random.key, other.key, sizeof random.key) != 0);
    for (unsigned i = 0; i < TURNS; i++)
        seen[hk_random_below(&random, BOUND)]++;
    for (unsigned i = 0; i < BOUND; i++)
        CHECK_SAY(seen[i] > 800 && seen[i] < 1200, "%u came %u times", i, seen[i]);
    CHECK_EQ(hk_random_below(&random, 1), 0);
}

int main(void) {
    known_numbers();
    even();
    return CHECK_PASS;
}
