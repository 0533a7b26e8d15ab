/* SPDX-License-Identifier: MIT
 *
 * Two thousand threads at once, each with blocks of its own, freeing those of its neighbour. No table of threads may
 * have a fixed size.
 */
#include "testing.h"

enum { THREADS = 2000, BLOCKS = 40 };

static void *blocks[THREADS][BLOCKS];
static pthread_t threads[THREADS];
static pthread_barrier_t barrier;

static void *run(void *argument) {
    size_t t = (size_t)(uintptr_t)argument, neighbour = (t + 1) % THREADS;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[t][i] = malloc(16 + i * 37);
        CHECK(blocks[t][i] != NULL);
        test_fill(blocks[t][i], 16 + i * 37, t * BLOCKS + i);
    }
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(test_holds(blocks[neighbour][i], 16 + i * 37, neighbour * BLOCKS + i));
        free(blocks[neighbour][i]);
    }
    return NULL;
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    pthread_attr_t small_stack;
    pthread_attr_init(&small_stack);
    pthread_attr_setstacksize(&small_stack, 64 * 1024);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (unsigned t = 0; t < THREADS; t++) {
        int error = pthread_create(&threads[t], &small_stack, run, (void *)(uintptr_t)t);
        if (error == EAGAIN)
            test_skip("this machine does not allow 2,000 threads");
        CHECK(error == 0);
    }
    pthread_barrier_wait(&barrier);
    for (unsigned t = 0; t < THREADS; t++)
        test_join(threads[t]);
    test_say("resident after %d threads ended: %ld KiB\n", THREADS, test_rss_kib());
    CHECK_HEAP();
    return TEST_PASS;
}
