/* SPDX-License-Identifier: MIT
 *
 * A server that remembers: in a working set of 12 MiB of blocks of 32 to 512 bytes the oldest block and a random one
 * are replaced in turn, and one in 32 of those whose time has come stays for ever, until 56 MiB have. Resident memory
 * over what is live stays near 1 while it runs; after the working set is freed and without a call more, it falls to 1.3
 * times the survivors at the most, though they lie scattered among what was freed.
 */
#include "testing.h"

enum {
    SET_BYTES = 12 << 20,
    KEPT_BYTES = 56 << 20,
    SMALLEST = 32,
    LARGEST = 512,
    BLOCKS = SET_BYTES / ((SMALLEST + LARGEST) / 2),
    KEEP_ONE_IN = 32,
    REST_MS = 3000,
};

/* In hundredths. */
enum { RUNNING_MAX = 120, RESTED_MAX = 130 };

static void *blocks[BLOCKS];
static uint16_t sizes[BLOCKS];
static size_t set_bytes, kept_bytes;

static void put(unsigned at, uint64_t *random) {
    sizes[at] = (uint16_t)(SMALLEST + test_random_below(random, LARGEST - SMALLEST + 1));
    blocks[at] = malloc(sizes[at]);
    CHECK(blocks[at] != NULL);
    memset(blocks[at], 1, sizes[at]);
    set_bytes += sizes[at];
}

static void retire(unsigned at, uint64_t *random) {
    set_bytes -= sizes[at];
    if (test_random_below(random, KEEP_ONE_IN) == 0)
        kept_bytes += sizes[at];
    else
        free(blocks[at]);
}

static long ratio(long base_kib, size_t live) { return (test_rss_kib() - base_kib) * 1024 * 100 / (long)live; }

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    memset(blocks, 1, sizeof blocks); /* resident before anything is measured */
    memset(sizes, 1, sizeof sizes);
    uint64_t random = 42;
    long base = test_rss_kib();
    for (unsigned i = 0; i < BLOCKS; i++)
        put(i, &random);
    for (unsigned turn = 0, oldest = 0; kept_bytes < KEPT_BYTES; turn++) {
        unsigned at = turn % 2 == 0 ? oldest++ % BLOCKS : (unsigned)test_random_below(&random, BLOCKS);
        retire(at, &random);
        put(at, &random);
    }
    long running = ratio(base, kept_bytes + set_bytes);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    long freed = ratio(base, kept_bytes), rested = freed;
    for (test_wait_t wait = test_wait_for(REST_MS); rested > RESTED_MAX && test_wait_more(&wait);)
        rested = ratio(base, kept_bytes);
    test_say("resident / live %ld %% running; resident / survivors %ld %% at once, %ld %% rested\n", running, freed,
             rested);
    CHECK_SAY(running <= RUNNING_MAX, "%ld hundredths", running);
    CHECK_SAY(rested <= RESTED_MAX, "%ld hundredths", rested);
    return TEST_PASS;
}
