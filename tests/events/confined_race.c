/* SPDX-License-Identifier: MIT
 *
 * One thread asks for more than a limit allows, so that what is in use and the limits are read again and again; another
 * one installs a filter for all threads, which kills at the calls of such a reading: there is none under way by then,
 * and none begins.
 */
#include "testing.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { TRIALS = 40, HELD = 50, STEPS = 20, DELAY_MAX_US = 2000, NO_FILTER = 99 };

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(mmap),
    ALLOW(munmap),
    ALLOW(mremap),
    ALLOW(madvise),
    ALLOW(mprotect),
    ALLOW(futex),
    ALLOW(write),
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(clock_gettime),
    ALLOW(nanosleep),
    ALLOW(clock_nanosleep),
    ALLOW(restart_syscall),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static const struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};

static _Atomic unsigned steps;

static void *allocates(void *unused) {
    for (;;) {
        CHECK(malloc(64 * TEST_MIB) == NULL);
        (void)atomic_fetch_add(&steps, 1);
    }
    return unused;
}

static void wait_for(unsigned wanted) {
    while (atomic_load(&steps) < wanted)
        test_sleep_us(100);
}

static void trial(uint64_t *random) {
    test_alarm(30);
    for (unsigned i = 0; i < HELD; i++)
        CHECK(memset(malloc(TEST_MIB), 1, TEST_MIB) != NULL);
    (void)test_thread(allocates, NULL);
    wait_for(STEPS);
    test_sleep_us((unsigned)test_random_below(random, DELAY_MAX_US));
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
        _exit(NO_FILTER);
    wait_for(atomic_load(&steps) + STEPS);
    _exit(TEST_PASS);
}

int main(void) {
    test_require_hakmem();
    test_alarm(110);
    uint64_t random = 1;
    for (unsigned i = 0; i < TRIALS; i++) {
        int status = 0;
        (void)test_random(&random);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            trial(&random);
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_SAY(WIFEXITED(status), "trial %u was killed by signal %d", i, WTERMSIG(status));
        if (WEXITSTATUS(status) == NO_FILTER)
            test_skip("no filters here");
        CHECK(WEXITSTATUS(status) == TEST_PASS);
    }
    return TEST_PASS;
}
