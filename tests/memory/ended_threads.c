/* SPDX-License-Identifier: MIT
 *
 * What threads that are over leave behind comes back without any further call: their small heaps rest for the next
 * threads, and after a while the helper retires them. They hold blocks of the main thread then, which go home; and the
 * program has much thread-local storage, which the helper, a thread without any, must not come near.
 */
#include "testing.h"

enum { THREADS = 4, BLOCKS = 400, SIZE = 120, SIZES = 64, WAIT_MS = 5000, OF_LIBC = 16 /* for the threads */ };

static _Thread_local char storage[512 * 1024];
static void *of_main[THREADS][BLOCKS];
static pthread_barrier_t barrier;

/* A slab for each of many sizes, and a magazine that takes what is freed of others' blocks. */
static void *lives(void *blocks) {
    void **foreign = blocks, *own[SIZES];
    storage[0] = storage[sizeof storage - 1] = 1;
    for (size_t i = 0; i < SIZES; i++)
        CHECK((own[i] = malloc((i + 1) * 16)) != NULL);
    void *same = test_opaque(malloc(SIZE));
    for (unsigned i = 0; i < BLOCKS; i++)
        free(foreign[i]);
    for (size_t i = 0; i < SIZES; i++)
        free(own[i]);
    free(same);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static uint64_t cached_blocks(hak_stats_t *stats) {
    uint64_t sum = 0;
    CHECK(test_stats(stats) == 0);
    for (unsigned i = 0; i < stats->class_count; i++)
        sum += stats->classes[i].cached_blocks;
    return sum;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned t = 0; t < THREADS; t++)
        threads[t] = test_thread(lives, of_main[t]);
    for (unsigned t = 0; t < THREADS; t++)
        test_join(threads[t]);
    pthread_barrier_destroy(&barrier);
}

static void round_of(void) {
    static hak_stats_t stats;
    for (unsigned t = 0; t < THREADS; t++)
        for (unsigned i = 0; i < BLOCKS; i++)
            CHECK((of_main[t][i] = malloc(SIZE)) != NULL);
    uint64_t most = cached_blocks(&stats) + OF_LIBC, live = stats.live;
    run_threads();
    uint64_t cached = cached_blocks(&stats);
    CHECK_SAY(cached > most + THREADS * SIZES / 2, "no heap rests: %llu blocks cached", (unsigned long long)cached);
    CHECK(stats.live < live);
    test_wait_t wait = test_wait_for(WAIT_MS);
    while (cached_blocks(&stats) > most && test_wait_more(&wait))
        ;
    cached = cached_blocks(&stats);
    CHECK_SAY(cached <= most, "after %u ms %llu blocks are cached", test_waited_ms(&wait), (unsigned long long)cached);
    CHECK(stats.errors == 0);
    CHECK(test_heap_violations() == 0);
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    for (int i = 0; i < 3; i++)
        round_of();
    return TEST_PASS;
}
