/* SPDX-License-Identifier: MIT
 *
 * A crowd of threads that all end leaves some pages each, stacks included, and that without a further call.
 */
#include "testing.h"

enum { THREADS = 2000, SIZES = 4, WAIT_MS = 5000, LEFT_KIB = 12, STACK_BYTES = 64 * 1024 };

static pthread_barrier_t all_here;

static void *lives(void *unused) {
    void *blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++)
        CHECK((blocks[i] = test_opaque(malloc((i + 1) * 16))) != NULL);
    pthread_barrier_wait(&all_here);
    for (size_t i = 0; i < SIZES; i++)
        free(blocks[i]);
    return unused;
}

static void run_crowd(void) {
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, STACK_BYTES) == 0);
    CHECK(pthread_barrier_init(&all_here, NULL, THREADS) == 0);
    for (unsigned t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], &small, lives, NULL) == 0);
    for (unsigned t = 0; t < THREADS; t++)
        CHECK(pthread_join(threads[t], NULL) == 0);
    CHECK(pthread_barrier_destroy(&all_here) == 0);
}

static long left_kib(long first) { return (test_rss_kib() - first) / THREADS; }

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    static hak_stats_t stats;
    long first = test_rss_kib();
    for (int round = 0; round < 3; round++) {
        run_crowd();
        test_wait_t wait = test_wait_for(WAIT_MS);
        while (left_kib(first) > LEFT_KIB && test_wait_more(&wait))
            ;
        CHECK_SAY(left_kib(first) <= LEFT_KIB, "after %u ms %ld KiB a thread are left", test_waited_ms(&wait),
                  left_kib(first));
    }
    CHECK(test_stats(&stats) == 0 && stats.heaps_total >= 3 * THREADS && stats.errors == 0);
    CHECK(test_heap_violations() == 0);
    return TEST_PASS;
}
