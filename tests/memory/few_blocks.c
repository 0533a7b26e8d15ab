/* SPDX-License-Identifier: MIT
 *
 * few_blocks [KIB]: 2,000 threads that live, each with 100 blocks of 16 B to 2 KiB: 103 KiB each, and at most KIB
 * resident, or 210, with its stack and its heap. None of them fills a slab of any class, so pages come with the blocks
 * and not ahead of them: 163, and 423 at levels 2 and 3. With the pages or the huge pages that slabs of such a heap get
 * where there are few threads: 314, and 600.
 *
 * On one processor: for many, these threads are few. Before, the main thread fills slabs of each class and empties
 * them: what they leave serves the threads.
 */
#include "testing.h"

enum { THREADS = 2000, BLOCKS = 100, LIMIT_KIB = 210, EARLY = 20000 };

static pthread_barrier_t filled, seen;

static void *fill(void *argument) {
    uint64_t random = (uintptr_t)argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = 16 + test_random_below(&random, 2033);
        void *block = malloc(size);
        CHECK(block != NULL);
        memset(test_opaque(block), 1, size);
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&seen);
    return NULL;
}

static void fill_early(void) {
    static void *blocks[EARLY];
    for (size_t i = 0; i < EARLY; i++)
        memset(blocks[i] = malloc(16 + i % 2033), 1, 16);
    for (size_t i = 0; i < EARLY; i++)
        free(blocks[i]);
}

int main(int count, char **words) {
    test_require_hakmem();
    test_alarm(120);
    const long limit = count > 1 ? atol(words[1]) : LIMIT_KIB;
    CHECK_SAY(limit > 0, "KIB is '%s', not a number of KiB", words[1]);
    test_use_one_processor();
    fill_early();
    static pthread_t ids[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * TEST_KIB);
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&seen, NULL, THREADS + 1);
    long base = test_rss_kib();
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], &attributes, fill, (void *)(uintptr_t)(i + 1)) == 0);
    pthread_barrier_wait(&filled);
    long kib = (test_rss_kib() - base) / THREADS;
    pthread_barrier_wait(&seen);
    for (unsigned i = 0; i < THREADS; i++)
        test_join(ids[i]);
    test_say("%ld KiB a thread\n", kib);
    CHECK_SAY(kib <= limit, "%ld KiB a thread, at most %ld expected", kib, limit);
    return TEST_PASS;
}
