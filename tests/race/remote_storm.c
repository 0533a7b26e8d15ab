/* SPDX-License-Identifier: MIT
 *
 * Remote frees with random delays: every thread frees mostly what others made, in bursts, pausing at random so that
 * posters and drainers meet in every order. When all is freed every block has come home: nothing is live, and as many
 * remote frees were counted as were made.
 */
#include "testing.h"

#include <stdatomic.h>

enum { THREADS = 4, BOXES = 4096, MILLISECONDS = 2500, ENOUGH = 10000 };

static _Atomic(uint64_t *) boxes[BOXES];
static _Atomic bool stop;

static void pause_at_random(uint64_t *random) {
    size_t dice = test_random_below(random, 4096);
    if (dice == 0)
        test_sleep_us((unsigned)test_random_below(random, 2000));
    else if (dice < 16)
        for (volatile unsigned spin = 0; spin < 2000; spin++) {
        }
    else if (dice < 24)
        sched_yield();
}

static void *run(void *argument) {
    uint64_t random = (uintptr_t)argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        size_t burst = 1 + test_random_below(&random, 200), size = 16 + test_random_below(&random, 40) * 16;
        for (size_t i = 0; i < burst; i++) {
            uint64_t *p = (uint64_t *)hak_malloc(size);
            p[0] = (uintptr_t)p;
            p[1] = size;
            uint64_t *old = atomic_exchange(&boxes[test_random_below(&random, BOXES)], p);
            pause_at_random(&random);
            if (old == NULL)
                continue;
            CHECK_SAY(old[0] == (uintptr_t)old && old[1] >= 16 && old[1] <= 656, "block %p changed", (void *)old);
            hak_free(old);
        }
    }
    return NULL;
}

int main(void) {
    test_alarm(90);
    static hak_stats_t before, after;
    CHECK(test_stats(&before) == 0);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        threads[i] = test_thread(run, (void *)(uintptr_t)(i + 1));
    do {
        test_sleep_us(MILLISECONDS * 1000);
        CHECK(test_stats(&after) == 0);
    } while (after.remote_frees - before.remote_frees <= ENOUGH);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        test_join(threads[i]);
    for (unsigned i = 0; i < BOXES; i++)
        hak_free(boxes[i]);
    CHECK(test_stats(&after) == 0);
    uint64_t remote = after.remote_frees - before.remote_frees;
    test_say("%llu remote frees in %llu batches, %llu drains\n", (unsigned long long)remote,
             (unsigned long long)(after.remote_batches - before.remote_batches),
             (unsigned long long)(after.remote_drains - before.remote_drains));
    /* What stays is what the C library holds for itself (names, streams, thread records): little, and not ours. */
    CHECK_SAY(after.live <= before.live + 65536, "live %llu, then %llu", (unsigned long long)before.live,
              (unsigned long long)after.live);
    CHECK(after.errors == 0);
    CHECK_HEAP();
    return TEST_PASS;
}
