/* SPDX-License-Identifier: MIT
 *
 * A program whose last thread calls exit(2) itself, not exit_group(2) as libc does, ends at once with the status of its
 * main thread, whatever threads hakmem has: so do children of clone(2), when their function returns.
 */
#include "testing.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { CHILDREN = 200, CHILDREN_MS = 12000, STATUS = 7, BYTES = 5 << 20 };

static double seconds(void) { return (double)test_now_ns() / 1e9; }

static char stack[1 << 20] __attribute__((aligned(64))), other_stack[1 << 20] __attribute__((aligned(64)));

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

/* A process that shares its parent's memory, in which the parent's helper was killed with the parent. Its main thread
 * leaves, and the other one, which takes over its thread pointer, goes on. */
static int goes_on(void *unused) {
    for (unsigned i = 0; i < 40; i++) {
        (void)use_memory(unused);
        usleep(10000);
    }
    _exit(STATUS);
}

static int outlives_its_parent(void *parent) {
    enum { THREAD = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM };
    while (getppid() == *(pid_t *)parent)
        usleep(1000);
    (void)use_memory(NULL);
    usleep(50000);
    if (clone(goes_on, other_stack + sizeof other_stack, THREAD, NULL) > 0)
        syscall(SYS_exit, STATUS + 1);
    _exit(TEST_FAIL);
}

static void helper_was_killed(void) {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        static pid_t self;
        self = getpid();
        (void)use_memory(NULL);
        usleep(50000);
        CHECK(clone(outlives_its_parent, stack + sizeof stack, CLONE_VM | SIGCHLD, &self) > 0);
        _exit(STATUS);
    }
    ends_within(child, 60, "parent of a child that shares memory");
    ends_within(-1, 60, "child that shares memory");
}

int main(void) {
    test_require_hakmem();
    test_alarm(200);
    children_of_clone();
    child_of_fork();
    main_thread_leaves();
    helper_was_killed();
    return TEST_PASS;
}
