/* SPDX-License-Identifier: MIT
 *
 * Hundreds of threads that are all there, as in a server with one for each connection, and take turns: each replaces
 * some of the blocks that all share. What lives stays the same; memory must not grow with every thread that has had its
 * turn.
 */
#include "testing.h"

enum { THREADS = 400, SHARED = 1 << 15, REPLACED = 1500, SIZE_MAX_EACH = 3000, BOUND_MIB = 550 };

static char *shared[SHARED];
static unsigned turn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed[THREADS + 1];

static void *take_turn(void *argument) {
    unsigned mine = (unsigned)(uintptr_t)argument;
    uint64_t random = mine;
    pthread_mutex_lock(&lock);
    while (turn != mine)
        pthread_cond_wait(&changed[mine], &lock);
    for (unsigned i = 0; i < REPLACED; i++) {
        size_t at = test_random_below(&random, SHARED);
        free(shared[at]);
        shared[at] = malloc(8 + test_random_below(&random, SIZE_MAX_EACH));
        CHECK(shared[at] != NULL);
        shared[at][0] = 1;
    }
    turn++;
    pthread_cond_signal(&changed[turn]);
    while (turn <= THREADS) /* the main thread ends it */
        pthread_cond_wait(&changed[mine], &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void) {
    test_require_hakmem();
    test_alarm(100);
    static pthread_t threads[THREADS];
    for (unsigned i = 0; i <= THREADS; i++)
        CHECK(pthread_cond_init(&changed[i], NULL) == 0);
    turn = THREADS + 1;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 * TEST_KIB);
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], &attributes, take_turn, (void *)(uintptr_t)i) == 0);
    turn = 0;
    pthread_cond_signal(&changed[0]);
    while (turn < THREADS)
        pthread_cond_wait(&changed[THREADS], &lock);
    long resident = test_rss_kib() / 1024;
    turn = THREADS + 1;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_cond_signal(&changed[i]);
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < THREADS; i++)
        test_join(threads[i]);
    test_say("%ld MiB resident after %d turns, about %d live\n", resident, THREADS,
             SHARED / 1024 * SIZE_MAX_EACH / 2048);
    CHECK_SAY(resident <= BOUND_MIB, "%ld MiB", resident);
    CHECK_HEAP();
    return TEST_PASS;
}
