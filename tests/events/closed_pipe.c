/* SPDX-License-Identifier: MIT
 *
 * Descriptor 2 leads into a pipe that nobody reads any more, or into a file that may grow no further: statistics and
 * reports of misuse go nowhere, and no SIGPIPE or SIGXFSZ ends the program or reaches its handler. One that was pending
 * before stays.
 */
#include "testing.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static volatile sig_atomic_t arrived;
static void (*print)(int, hak_format_t);

static void on_pipe(int signal_number) {
    (void)signal_number;
    arrived = arrived + 1;
}

static void say_and_misuse(void) {
    char *p = malloc(100);
    CHECK(p != NULL);
    errno = 0;
    free(p);
    free(test_opaque(p));
    CHECK(errno == 0);
    print(STDERR_FILENO, HAK_FORMAT_TEXT);
}

static bool is_pending(void) {
    sigset_t set;
    CHECK(sigpending(&set) == 0);
    return sigismember(&set, SIGPIPE) == 1;
}

static void hold(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

/* In the child: no file may have a byte. */
static void into_a_full_file(void) {
    int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    const struct rlimit none = {0, 0};
    CHECK(file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO && setrlimit(RLIMIT_FSIZE, &none) == 0);
    say_and_misuse(); /* SIGXFSZ would end the program */
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    say_and_misuse();
    say_and_misuse();
    _exit(0);
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    TEST_SYMBOL(print, "hak_stats_print");
    CHECK(print != NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        into_a_full_file();
    int status = 0;
    CHECK_SAY(waitpid(child, &status, 0) == child && status == 0, "a file that is full: status %d", status);
    int ends[2], terminal = dup(STDERR_FILENO);
    CHECK(terminal >= 0 && pipe(ends) == 0);
    close(ends[0]);
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);

    say_and_misuse(); /* SIGPIPE would end the program */
    signal(SIGPIPE, on_pipe);
    say_and_misuse();
    hold(SIG_BLOCK);
    say_and_misuse();
    bool came = is_pending();
    raise(SIGPIPE);
    say_and_misuse();
    bool stayed = is_pending();
    signal(SIGPIPE, SIG_IGN); /* takes the pending one away */
    hold(SIG_UNBLOCK);
    say_and_misuse();

    CHECK(dup2(terminal, STDERR_FILENO) == STDERR_FILENO);
    CHECK(arrived == 0);
    CHECK(!came);
    CHECK(stayed);
    hak_stats_t stats = {.struct_size = sizeof stats};
    CHECK(test_stats(&stats) == 0);
    CHECK_SAY(stats.errors == 5, "%llu reports", (unsigned long long)stats.errors);
    return TEST_PASS;
}
