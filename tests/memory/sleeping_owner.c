/* SPDX-License-Identifier: MIT
 *
 * Blocks freed by a thread that never allocates go back to the kernel although their owner, and then that thread too,
 * sleeps. And a producer with a consumer that never allocates holds little more than what is live.
 */
#include "testing.h"

#include <stdatomic.h>

enum { BLOCKS = 1 << 17, SIZE = 500, RING = 4096, ITEMS = 3000000 };

static void *blocks[BLOCKS];
static pthread_barrier_t freed;
static void *_Atomic ring[RING];

static void *free_all(void *argument) {
    (void)argument;
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&freed);
    return NULL;
}

static void *consume(void *argument) {
    (void)argument;
    for (unsigned i = 0; i < ITEMS; i++) {
        void *block;
        while ((block = atomic_exchange(&ring[i % RING], NULL)) == NULL)
            sched_yield();
        free(block);
    }
    return NULL;
}

static void produce(void) {
    long base = test_rss_kib();
    pthread_t consumer = test_thread(consume, NULL);
    for (unsigned i = 0; i < ITEMS; i++) {
        void *block = malloc(SIZE);
        memset(block, 1, 16);
        while (atomic_load(&ring[i % RING]) != NULL)
            sched_yield();
        atomic_store(&ring[i % RING], block);
    }
    long kib = test_rss_kib() - base;
    test_join(consumer);
    test_say("producer and consumer: %ld KiB for %d live at most\n", kib, RING * SIZE / 1024);
    CHECK_SAY(kib < RING * SIZE / 1024 + 4096, "%ld KiB", kib);
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    memset(blocks, 1, sizeof blocks);
    pthread_barrier_init(&freed, NULL, 2);
    long base = test_rss_kib();
    for (unsigned i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc(SIZE), 1, SIZE);
    long peak = test_rss_kib() - base;
    pthread_t other = test_thread(free_all, NULL);
    pthread_barrier_wait(&freed);
    long kib = peak;
    for (test_wait_t wait = test_wait_for(3000); kib > peak / 10 && test_wait_more(&wait);)
        kib = test_rss_kib() - base;
    test_say("peak %ld KiB, at rest %ld\n", peak, kib);
    CHECK_SAY(kib <= peak / 10, "%ld KiB of %ld stay", kib, peak);
    pthread_barrier_wait(&freed);
    test_join(other);
    produce();
    return TEST_PASS;
}
