/* SPDX-License-Identifier: MIT
 *
 * Threads are cancelled while they allocate. malloc and free are no cancellation points: a thread is cancelled only
 * where it asks for it, its clean-up handlers free its block, and no lock is left held.
 */
#include "testing.h"

enum { ROUNDS = 400 };

static void clean_up(void *argument) { free(*(void **)argument); }

static void *run(void *unused) {
    (void)unused;
    void *volatile block = NULL;
    pthread_cleanup_push(clean_up, (void *)&block);
    for (size_t i = 0;; i++) {
        void *old = block;
        block = malloc(16 + i * 97 % (i % 64 == 0 ? 700000 : 9000));
        CHECK(block != NULL);
        free(old);
        if (i % 16 == 0)
            pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_t first = test_thread(run, NULL), second = test_thread(run, NULL);
        test_sleep_us(200 + i);
        CHECK(pthread_cancel(first) == 0);
        void *end = NULL;
        CHECK(pthread_join(first, &end) == 0 && end == PTHREAD_CANCELED);
        free(malloc(1000));
        CHECK(pthread_cancel(second) == 0);
        CHECK(pthread_join(second, &end) == 0 && end == PTHREAD_CANCELED);
    }
    CHECK_HEAP();
    return TEST_PASS;
}
