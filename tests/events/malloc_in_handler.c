/* SPDX-License-Identifier: MIT
 *
 * A signal handler that calls malloc when it has interrupted malloc is a mistake (signal-safety(7)), which C libraries
 * answer with a hang. The one thread of a process that waits for a lock of its own frame ends it with a line that says
 * so. The frame stands still in mmap, with locks held: the library's own system call raises the signal.
 */
#include "testing.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { LARGE = 3 * 1024 * 1024, HANG_SECONDS = 60 };

static volatile sig_atomic_t asked;

static void on_signal(int number) {
    (void)number;
    asked = 1;
    free(malloc(LARGE));
    _exit(TEST_FAIL); /* nothing was held, or nobody noticed */
}

/* From here on mmap raises SIGSYS and does nothing. By the system call, of which the allocator learns nothing. */
static void stop_mmap(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        _exit(TEST_SKIP);
}

static void mistake(void) {
    test_alarm(HANG_SECONDS);
    CHECK(signal(SIGSYS, on_signal) != SIG_ERR);
    stop_mmap();
    for (unsigned i = 0; i < 1000 && !asked; i++)
        (void)test_opaque(malloc(LARGE));
    _exit(TEST_FAIL);
}

int main(void) {
    test_require_hakmem();
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
        mistake();
    }
    close(ends[1]);
    char text[1000] = "";
    size_t length = 0;
    for (ssize_t got; length < sizeof text - 1 && (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP)
        test_skip("no filter of system calls is to be had");
    CHECK_SAY(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %x, said: %s", (unsigned)status, text);
    CHECK_SAY(strstr(text, "signal handler that has interrupted malloc") != NULL, "said: %s", text);
    return TEST_PASS;
}
