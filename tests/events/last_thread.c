/* SPDX-License-Identifier: MIT
 *
 * A program whose last thread calls exit(2) itself, not exit_group(2) as libc does, ends at once with the status of its
 * main thread, whatever threads hakmem has: so do children of clone(2), when their function returns.
 */
#include "testing.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { CHILDREN = 200, CHILDREN_MS = 12000, STATUS = 7, BYTES = 5 << 20 };

static double seconds(void) { return (double)test_now_ns() / 1e9; }

static char stack[1 << 20] __attribute__((aligned(64)));

/* As much as starts a helper. */
static int use_memory(void *unused) {
    (void)unused;
    char *p = malloc(BYTES);
    CHECK(p != NULL);
    memset(p, 1, BYTES);
    free(test_opaque(p));
    return STATUS;
}

static void ends_within(pid_t child, double limit, const char *what) {
    double begin = seconds();
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        CHECK_SAY(seconds() - begin < limit, "%s: still there", what);
        usleep(1000);
    }
    CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == STATUS, "%s: status %x", what, (unsigned)status);
}

/* Without our thread, which would keep each for a while. */
static void children_of_clone(void) {
    double begin = seconds();
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = clone(use_memory, stack + sizeof stack, SIGCHLD, NULL);
        CHECK(child > 0);
        ends_within(child, 60, "child of clone(2)");
    }
    CHECK_SAY(seconds() - begin < CHILDREN_MS / 1000, "%d children took %.1f s", CHILDREN, seconds() - begin);
}

/* With our thread: its next round ends the process. */
static void child_of_fork(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        (void)use_memory(NULL);
        syscall(SYS_exit, STATUS);
    }
    ends_within(child, 60, "child of fork(2)");
}

/* Another thread of the program goes on without the main thread, and the process with it. */
static void *one_more(void *unused) {
    (void)unused;
    usleep(400000);
    (void)use_memory(NULL);
    _exit(STATUS);
}

static void main_thread_leaves(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pthread_t thread;
        (void)use_memory(NULL);
        CHECK(pthread_create(&thread, NULL, one_more, NULL) == 0);
        syscall(SYS_exit, STATUS + 1);
    }
    ends_within(child, 60, "thread without the main thread");
}

int main(void) {
    test_require_hakmem();
    test_alarm(200);
    children_of_clone();
    child_of_fork();
    main_thread_leaves();
    return TEST_PASS;
}
