/* SPDX-License-Identifier: MIT
 *
 * A handler ends the process by exit, whatever it has interrupted, on the stack that it has interrupted or on one of
 * its own, in a program of one thread or of several. exit's last look at what was freed must neither wait for a lock
 * that the interrupted call holds, nor take a block that is half freed for one that was written to. Statistics, profile
 * and leaks at exit must not wait for such a lock either.
 */
#include "testing.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { CHILDREN = 200, BLOCKS = 4096, THREADS = 2, STACK_BYTES = 64 * 1024, OK_STATUS = 42 };

static void leave(int number) {
    (void)number;
    exit(OK_STATUS);
}

static void handle_on_own_stack(struct sigaction *action) {
    static char stack[STACK_BYTES];
    stack_t wanted = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&wanted, NULL) == 0);
    action->sa_flags |= SA_ONSTACK;
}

static _Noreturn void work(uint64_t random) {
    char *blocks[BLOCKS] = {NULL};
    for (;;) {
        char **block = &blocks[test_random_below(&random, BLOCKS)];
        free(*block);
        *block = malloc(1 + test_random_below(&random, 2000));
        CHECK(*block != NULL);
        **block = 1;
    }
}

static void *work_beside(void *number) {
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    work((uint64_t)(uintptr_t)number);
}

static void work_until_told(unsigned child) {
    struct sigaction action = {.sa_handler = leave};
    struct itimerval soon = {.it_value = {0, (suseconds_t)(500 + child * 37 % 3000)}};
    if (child % 2 == 1)
        handle_on_own_stack(&action);
    CHECK(sigaction(SIGPROF, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_PROF, &soon, NULL) == 0);
    pthread_t other;
    for (uintptr_t i = 0; child % 4 >= 2 && i < THREADS; i++)
        CHECK(pthread_create(&other, NULL, work_beside, (void *)(child + i + 1)) == 0);
    work(child + 1);
}

int main(void) {
    test_require_hakmem();
    for (unsigned child = 0; child < CHILDREN; child++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            test_alarm(4);
            work_until_told(child);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == OK_STATUS, "child %u ended with status %#x", child,
                  (unsigned)status);
    }
    printf("%d handlers called exit\n", CHILDREN);
    return TEST_PASS;
}
