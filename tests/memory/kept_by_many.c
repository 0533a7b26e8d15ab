/* SPDX-License-Identifier: MIT
 *
 * Threads that each freed a long block and go to sleep: what they keep goes back, though it is less than is worth a
 * helper in each of them.
 */
#include "testing.h"

#include <pthread.h>

enum { THREADS = 12, SIZE = 900 * TEST_KIB, WAIT_MS = 5000 };

static pthread_barrier_t freed, over;

static void *frees_and_sleeps(void *unused) {
    char *block = test_opaque(malloc(SIZE));
    CHECK(block != NULL);
    memset(block, 1, SIZE);
    free(block);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&over);
    return unused;
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    CHECK(pthread_barrier_init(&freed, NULL, THREADS + 1) == 0 && pthread_barrier_init(&over, NULL, THREADS + 1) == 0);
    const long before = test_rss_kib(), most = before + THREADS * SIZE / 1024 / 4;
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, frees_and_sleeps, NULL) == 0);
    pthread_barrier_wait(&freed);
    for (test_wait_t wait = test_wait_for(WAIT_MS); test_rss_kib() > most && test_wait_more(&wait);)
        ;
    CHECK_SAY(test_rss_kib() <= most, "%ld KiB resident, %ld before", test_rss_kib(), before);
    pthread_barrier_wait(&over);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return TEST_PASS;
}
