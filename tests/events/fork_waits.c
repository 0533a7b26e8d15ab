/* SPDX-License-Identifier: MIT
 *
 * TEST_WHEN=early|late: pthread_atfork handlers of the program and of a library that wait for other threads, which are
 * in malloc or end: registered before anything else in the process, or late. A prepare handler takes a mutex that
 * another thread holds while it allocates; one asks a thread to allocate and waits for its answer; one ends a worker
 * and joins it. None may hang.
 */
#include "fork_waits.h"

#include <sys/wait.h>

enum { FORKS = 60, WORKERS = 2, BLOCKS = 500, HANG_SECONDS = 100 };

static atomic_bool stop;
static int early;

static void *allocates_under(void *mutex) {
    uint64_t random = (uintptr_t)&mutex;
    void *blocks[BLOCKS];
    while (!atomic_load(&stop)) {
        pthread_mutex_lock(mutex);
        for (unsigned i = 0; i < BLOCKS; i++)
            CHECK((blocks[i] = malloc(1 + test_random_below(&random, 3000))) != NULL);
        for (unsigned i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        pthread_mutex_unlock(mutex);
    }
    return NULL;
}

static fork_waits_t in_program = FORK_WAITS_INIT;

static void prepare(void) { fork_waits_prepare(&in_program); }
static void release(void) { fork_waits_release(&in_program); }

__attribute__((constructor(101))) static void before_all(void) {
    const char *when = getenv("TEST_WHEN");
    early = when != NULL && strcmp(when, "early") == 0;
    if (early)
        CHECK(pthread_atfork(prepare, release, release) == 0);
}

int main(void) {
    test_require_hakmem();
    test_alarm(HANG_SECONDS);
    pthread_t threads[2 * WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        threads[2 * i] = test_thread(allocates_under, &in_program.mutex);
        threads[2 * i + 1] = test_thread(allocates_under, &fork_waits_in_library()->mutex);
    }
    if (!early)
        CHECK(pthread_atfork(prepare, release, release) == 0);
    for (unsigned i = 0; i < FORKS; i++) {
        fork_waits_begin(&in_program);
        fork_waits_begin(fork_waits_in_library());
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            test_alarm(HANG_SECONDS);
            for (unsigned k = 1; k < BLOCKS; k++)
                free(malloc(k * 100));
            _exit(TEST_PASS);
        }
        int status = 1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 2 * WORKERS; i++)
        test_join(threads[i]);
    CHECK(in_program.prepared == FORKS && fork_waits_in_library()->prepared == FORKS);
    CHECK_HEAP();
    return TEST_PASS;
}
