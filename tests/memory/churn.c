/* SPDX-License-Identifier: MIT
 *
 * A long churn at a constant number of live blocks: two threads replace blocks of 16 bytes to 4 KiB at random, also
 * each other's, and every 1,000 ms two short-lived threads do for a moment. Resident memory over live bytes stays where
 * it was in the beginning, however long it goes on.
 *
 *   churn [SECONDS]
 */
#include "testing.h"

#include <malloc.h>
#include <stdatomic.h>

enum {
    BLOCKS = 400000,
    SIZE_MAX_BYTES = 4096,
    WARM_SHARE = 5,
    SAMPLES_MAX = 100000,
    SAMPLE_MS = 200,
    GUEST_TURNS = 20000
};

/* In hundredths. One thread alone comes to 111; two that free each other's blocks keep some more free for each other
 * (docs/adr/0019). DRIFT_MAX is how far the last quarter may lie above the first: more than chance. */
enum { RATIO_MAX = 135, DRIFT_MAX = 10 };

static _Atomic(void *) blocks[BLOCKS];
static _Atomic long live_bytes;
static atomic_bool over;
static unsigned samples[SAMPLES_MAX]; /* resident / live in hundredths */

static void replace(uint64_t *random) {
    size_t size = 16 + test_random_below(random, test_random_below(random, 8) == 0 ? SIZE_MAX_BYTES - 16 : 500);
    void *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 1, size);
    long more = (long)malloc_usable_size(block); /* from the exchange on somebody else may free it */
    void *old = atomic_exchange(&blocks[test_random_below(random, BLOCKS)], block);
    atomic_fetch_add(&live_bytes, more - (old != NULL ? (long)malloc_usable_size(old) : 0));
    free(old);
}

static void *churn(void *seed) {
    uint64_t random = (uintptr_t)seed;
    while (!atomic_load_explicit(&over, memory_order_relaxed))
        replace(&random);
    return NULL;
}

static void *visit(void *seed) {
    uint64_t random = (uintptr_t)seed;
    for (unsigned i = 0; i < GUEST_TURNS; i++)
        replace(&random);
    return NULL;
}

static int by_value(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

static unsigned median(unsigned first, unsigned count) {
    qsort(samples + first, count, sizeof *samples, by_value);
    return samples[first + count / 2];
}

/* Time in which both threads had a processor: the same work is done on a busy machine, in more time. */
static uint64_t work_ns(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) / 2;
}

static unsigned sample_until(uint64_t end, long base_kib) {
    unsigned count = 0;
    uint64_t random = 7;
    while (work_ns() < end && count < SAMPLES_MAX) {
        pthread_t guests[2];
        bool with_guests = count % (1000 / SAMPLE_MS) == 0;
        for (unsigned i = 0; with_guests && i < 2; i++)
            guests[i] = test_thread(visit, (void *)(uintptr_t)test_random(&random));
        for (uint64_t begin = work_ns(); work_ns() - begin < SAMPLE_MS * 1000000u;)
            test_sleep_us(10000);
        for (unsigned i = 0; with_guests && i < 2; i++)
            test_join(guests[i]);
        samples[count++] = (unsigned)((test_rss_kib() - base_kib) * 1024 * 100 / atomic_load(&live_bytes));
    }
    return count;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20, random = 1;
    memset(samples, 1, sizeof samples); /* resident before anything is measured */
    memset((void *)blocks, 0, sizeof blocks);
    long base = test_rss_kib();
    for (unsigned i = 0; i < 4 * BLOCKS; i++)
        replace(&random);
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        threads[i] = test_thread(churn, (void *)(i + 2));
    unsigned count = sample_until(work_ns() + seconds * 1000000000u, base), warm = count / WARM_SHARE;
    atomic_store(&over, true);
    for (unsigned i = 0; i < 2; i++)
        test_join(threads[i]);
    CHECK_HEAP();
    unsigned quarter = (count - warm) / 4, first = median(warm, quarter), last = median(count - quarter, quarter);
    test_say("%u samples, %ld MiB live: resident / live %u.%02u at first, %u.%02u in the end\n", count,
             atomic_load(&live_bytes) >> 20, first / 100, first % 100, last / 100, last % 100);
    CHECK_SAY(last <= RATIO_MAX, "%u hundredths", last);
    CHECK_SAY(last <= first + DRIFT_MAX, "%u hundredths after %u", last, first);
    return TEST_PASS;
}
