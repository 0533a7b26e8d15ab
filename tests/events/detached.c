/* SPDX-License-Identifier: MIT
 *
 * Detached threads that nobody joins, still running when main ends by pthread_exit: the process lives on until the last
 * of them is done, and that one sets the exit status.
 */
#include "testing.h"

#include <stdatomic.h>

enum { THREADS = 40 };

static _Atomic unsigned done;

static void *run(void *argument) {
    uint64_t random = (uintptr_t)argument;
    void *kept[100] = {NULL};
    for (unsigned i = 0; i < 5000; i++) {
        size_t slot = test_random_below(&random, 100), size = test_random_log_size(&random, 20000);
        free(kept[slot]);
        kept[slot] = malloc(size);
        CHECK(kept[slot] != NULL);
        memset(kept[slot], 1, size);
    }
    for (unsigned i = 0; i < 100; i += 2)
        free(kept[i]); /* the rest outlives the thread */
    if (atomic_fetch_add(&done, 1) + 1 == THREADS) {
        CHECK_HEAP();
        test_say("last thread\n");
        exit(TEST_PASS);
    }
    return NULL;
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_t thread = test_thread(run, (void *)(uintptr_t)(i + 1));
        CHECK(pthread_detach(thread) == 0);
    }
    void *mine = malloc(100);
    memset(mine, 1, 100);
    pthread_exit(mine);
}
