/* SPDX-License-Identifier: MIT
 *
 * fork from a parent whose other threads are in the middle of malloc and free. Each child allocates at once, frees the
 * parent's blocks, starts threads of its own and ends by exit(3); one that hangs is killed by its alarm and fails.
 */
#include "busy.h"

#include <sys/wait.h>

enum { THREADS = 4, CHILDREN = 200, TOGETHER = 4 };

static void *child_thread(void *argument) {
    uint64_t random = (uintptr_t)argument;
    for (unsigned i = 0; i < 300; i++)
        busy_trade(&random, 3000);
    return NULL;
}

static void child(unsigned number, busy_block_t **parents, unsigned count) {
    test_alarm(20);
    free(malloc(100));
    for (unsigned i = 0; i < count; i++)
        busy_drop(parents[i]);
    if (number % 2 == 0) {
        pthread_t threads[3];
        for (unsigned i = 0; i < 3; i++)
            threads[i] = test_thread(child_thread, (void *)(uintptr_t)(number + i));
        child_thread((void *)(uintptr_t)number);
        for (unsigned i = 0; i < 3; i++)
            test_join(threads[i]);
    }
    for (size_t size = 1; size < 8 * TEST_MIB; size *= 5)
        free(malloc(size));
    /* What the parent's threads held in shared slots is whole blocks: they publish after filling. */
    busy_clear();
    if (number % 8 == 0)
        CHECK_HEAP();
    exit(TEST_PASS);
}

static void reap(void) {
    int status = 0;
    CHECK(wait(&status) > 0);
    CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ended with status %#x", status);
}

int main(void) {
    enum { PARENTS = 400 };
    static busy_block_t *parents[PARENTS];
    test_require_hakmem();
    test_alarm(100);
    pthread_t threads[THREADS];
    busy_start(threads, THREADS);
    uint64_t random = 99;
    for (unsigned i = 0; i < CHILDREN; i++) {
        for (unsigned k = 0; k < PARENTS; k++) {
            busy_drop(parents[k]);
            parents[k] = busy_make(&random, 2000);
        }
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child(i, parents, PARENTS);
        if (i >= TOGETHER)
            reap();
    }
    for (unsigned i = 0; i < TOGETHER; i++)
        reap();
    for (unsigned k = 0; k < PARENTS; k++)
        busy_drop(parents[k]);
    busy_end(threads, THREADS);
    CHECK_HEAP();
    return TEST_PASS;
}
