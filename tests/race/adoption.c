/* SPDX-License-Identifier: MIT
 *
 * Slabs change owner while others free into them: short-lived threads allocate and end, long-lived ones free their
 * blocks at that very moment, and new threads adopt what is left. Contents are kept, nothing is lost, memory stays
 * bounded.
 */
#include "testing.h"

#include <stdatomic.h>

enum { FREERS = 2, BOXES = 2048, TOGETHER = 3, BLOCKS = 600 };

#ifdef __SANITIZE_THREAD__ /* it finds a race by the order of events, however seldom they meet */
enum { GENERATIONS = 200 };
#else
enum { GENERATIONS = 600 };
#endif

typedef struct block {
    size_t size;
    uint64_t seed;
} block_t;

static _Atomic(block_t *) boxes[BOXES];
static _Atomic bool stop;

static void drop(block_t *b) {
    if (b == NULL)
        return;
    CHECK_SAY(test_holds(b + 1, b->size - sizeof *b, b->seed), "block %p changed", (void *)b);
    hak_free(b);
}

/* What the heap has resident: a sanitizer keeps memory of its own beside it. */
static long heap_kib(void) {
    hak_stats_t stats;
    CHECK(test_stats(&stats) == 0);
    return (long)(stats.resident / 1024);
}

static void *live_briefly(void *argument) {
    uint64_t random = (uintptr_t)argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = sizeof(block_t) + test_random_log_size(&random, i % 100 == 0 ? 100000 : 1000);
        block_t *b = (block_t *)hak_malloc(size);
        CHECK(b != NULL);
        b->size = size;
        b->seed = test_random(&random);
        test_fill(b + 1, size - sizeof *b, b->seed);
        drop(atomic_exchange(&boxes[test_random_below(&random, BOXES)], b));
    }
    return NULL;
}

static void *free_others(void *argument) {
    uint64_t random = (uintptr_t)argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed))
        drop(atomic_exchange(&boxes[test_random_below(&random, BOXES)], NULL));
    return NULL;
}

int main(void) {
    test_alarm(90);
    pthread_t freers[FREERS], makers[TOGETHER];
    for (unsigned i = 0; i < FREERS; i++)
        freers[i] = test_thread(free_others, (void *)(uintptr_t)(i + 1));
    long early_kib = 0;
    for (unsigned g = 0; g < GENERATIONS; g++) {
        for (unsigned i = 0; i < TOGETHER; i++)
            makers[i] = test_thread(live_briefly, (void *)(uintptr_t)(g * TOGETHER + i + 100));
        for (unsigned i = 0; i < TOGETHER; i++)
            test_join(makers[i]);
        if (g == GENERATIONS / 6)
            early_kib = heap_kib();
    }
    /* What was freed within the last half second may still be resident; how much that is depends on the load. */
    long most_kib = early_kib * 3 / 2 + 16384, late_kib = heap_kib();
    for (test_wait_t wait = test_wait_for(1500); late_kib >= most_kib && test_wait_more(&wait); late_kib = heap_kib()) {
#ifdef __SANITIZE_THREAD__
        (void)hak_trim(); /* there is no helper thread: without a call nothing goes back */
#endif
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < FREERS; i++)
        test_join(freers[i]);
    for (unsigned i = 0; i < BOXES; i++)
        drop(boxes[i]);
    static hak_stats_t stats;
    CHECK(test_stats(&stats) == 0);
    test_say("slabs new %llu, reused %llu, adopted %llu; resident %ld KiB early, %ld KiB late\n",
             (unsigned long long)stats.slabs_new, (unsigned long long)stats.slabs_reused,
             (unsigned long long)stats.slabs_adopted, early_kib, late_kib);
    CHECK(stats.slabs_adopted > 0);
    CHECK(stats.heaps_total >= GENERATIONS * TOGETHER && stats.heaps_now <= 2);
    CHECK(late_kib < most_kib);
    CHECK(stats.errors == 0);
    CHECK_HEAP();
    return TEST_PASS;
}
