/* SPDX-License-Identifier: MIT
 *
 * A child forks a child that forks a child, each with threads of its own running, and pthread_atfork handlers that
 * allocate, registered before and after the allocator's.
 */
#include "busy.h"

#include <sys/wait.h>

enum { DEPTH = 5, THREADS = 2, CHAINS = 15 };

/* What one set of handlers carries from before the fork to after it. */
static void *early_block, *late_block;

static void early_prepare(void) { early_block = malloc(1000); }
static void early_release(void) { free(early_block); }
static void late_prepare(void) { late_block = malloc(1000); }
static void late_release(void) { free(late_block); }

__attribute__((constructor(101))) static void early(void) {
    pthread_atfork(early_prepare, early_release, early_release);
}

static int descend(unsigned depth) {
    test_alarm(40);
    pthread_t threads[THREADS];
    atomic_store(&busy_stop, false);
    busy_start(threads, THREADS);
    test_sleep_us(1000);
    int status = 0;
    if (depth > 0) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            exit(descend(depth - 1));
        CHECK(waitpid(pid, &status, 0) == pid);
    }
    busy_end(threads, THREADS);
    CHECK_HEAP();
    return status == 0 ? TEST_PASS : TEST_FAIL;
}

int main(void) {
    test_require_hakmem();
    free(malloc(1));
    pthread_atfork(late_prepare, late_release, late_release);
    for (unsigned i = 0; i < CHAINS; i++)
        CHECK(descend(DEPTH) == TEST_PASS);
    return TEST_PASS;
}
