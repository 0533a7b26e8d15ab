/* SPDX-License-Identifier: MIT
 *
 * Producers hand blocks to consumers and end before these are freed; consumers free what dead threads, and threads that
 * live on, have made. Nothing is lost: 2 MiB live in each round, 315 in all, go through the heaps of three threads at a
 * time. Each of them may keep slabs for what it once had live, so that 5 - 12 MiB are resident, by who got which heap.
 */
#include "testing.h"

enum { ROUNDS = 150, BLOCKS = 8000, CONSUMERS = 2, MOST_MIB = 14 };

static void *blocks[BLOCKS];

static void *produce(void *argument) {
    size_t round = (size_t)(uintptr_t)argument;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = 16 + (i * 31 + round) % 500;
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        test_fill(blocks[i], size, round + i);
    }
    return NULL;
}

static void *consume(void *argument) {
    size_t part = (size_t)(uintptr_t)argument % CONSUMERS, round = (size_t)(uintptr_t)argument / CONSUMERS;
    for (size_t i = part; i < BLOCKS; i += CONSUMERS) {
        size_t size = 16 + (i * 31 + round) % 500;
        CHECK(test_holds(blocks[i], size, round + i));
        free(blocks[i]);
    }
    return NULL;
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    long peak = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        test_join(test_thread(produce, (void *)(uintptr_t)round));
        pthread_t consumers[CONSUMERS];
        for (size_t c = 0; c < CONSUMERS; c++)
            consumers[c] = test_thread(consume, (void *)(uintptr_t)(round * CONSUMERS + c));
        for (size_t c = 0; c < CONSUMERS; c++)
            test_join(consumers[c]);
        long rss = test_anonymous_kib();
        peak = rss > peak ? rss : peak;
    }
    test_say("resident after a round: at most %ld KiB\n", peak);
    CHECK(peak < MOST_MIB * 1024);
    CHECK_HEAP();
    return TEST_PASS;
}
