/* SPDX-License-Identifier: MIT
 *
 * Statistics at exit reach the standard error that the program was started with, whatever it made of descriptor 2 since, or in a child
 * of fork the log that it made of it, and nothing else: each case is this program run again, with its standard error in a pipe that the
 * case reads to the end.
 */
#include "testing.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static const char *program, *scratch;
static char *text;
enum { TEXT_MAX = 1 << 20, STATS_MIN = 500 };

/* --- What the program does, run again ------------------------------------------------------------------------------- */

/* As all of GNU coreutils before they end. */
static void runs_closed(void) { close(STDERR_FILENO); }

static void reopen(int flags) {
    close(STDERR_FILENO);
    CHECK(open(scratch, flags) == STDERR_FILENO);
}

static void runs_database(void) { reopen(O_RDWR); }
static void runs_output(void) { reopen(O_WRONLY); }

static void in_child(int flags) {
    int status = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        reopen(flags);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void runs_child_output(void) { in_child(O_WRONLY); }
static void runs_child_log(void) { in_child(O_WRONLY | O_APPEND); }

/* Asked for while it runs. */
static void runs_late(void) {
    int (*set)(const char *, const char *);
    TEST_SYMBOL(set, "hak_option_set");
    CHECK(set("STATS", "json") == 0);
    reopen(O_RDWR);
}

/* Descriptors of the program's own, of the same file, are there in a child. */
static void runs_numbers(void) {
    int status = 0, numbers = getdtablesize();
    for (int fd = 10; fd < numbers; fd++)
        CHECK(dup2(STDERR_FILENO, fd) == fd);
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 10; fd < numbers; fd++)
            CHECK(fcntl(fd, F_GETFD) == 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void runs_few_numbers(void) { runs_closed(); }

/* Started without standard error: the next file takes its number. */
static void runs_without(void) { CHECK(open(scratch, O_WRONLY) == STDERR_FILENO); }

/* The reader sees the end of the pipe while the daemon lives, which is as long as the test. */
static void runs_daemon(void) {
    if (fork() != 0)
        return;
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    char ends;
    _exit(read(STDIN_FILENO, &ends, 1) == 0 ? 0 : 1);
}

static void on_timer(int number) { (void)number; }

/* The pipe is full, and signals come all the time. */
static void runs_nonblocking(void) {
    const struct itimerval often = {{0, 20000}, {0, 20000}};
    const struct sigaction action = {.sa_handler = on_timer};
    CHECK(fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK) == 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
}

/* --- The cases ------------------------------------------------------------------------------------------------------ */

/* As before Linux 4.11, and under some filters: the library cannot tell files apart. */
static void forbid_statx(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}

static void become(const char *what, int stderr_end) {
    if (stderr_end >= 0 ? dup2(stderr_end, STDERR_FILENO) < 0 : close(STDERR_FILENO) != 0)
        _exit(2);
    for (int fd = STDERR_FILENO + 1; fd < 20; fd++)
        close(fd);
    struct rlimit numbers;
    CHECK(getrlimit(RLIMIT_NOFILE, &numbers) == 0);
    numbers.rlim_cur = strcmp(what, "few_numbers") == 0 ? 64 : 1024;
    (void)setrlimit(RLIMIT_NOFILE, &numbers);
    setenv("HAKMEM_STATS", strcmp(what, "late") == 0 ? "off" : "json", 1);
    if (strcmp(what, "old") == 0)
        forbid_statx();
    execl(program, program, what, scratch, (char *)NULL);
    _exit(3);
}

/* How many bytes of statistics came out of the pipe; their text is in `text`. */
static size_t said(const char *what, bool with_stderr, size_t fill) {
    int ends[2], status = 0;
    CHECK(pipe(ends) == 0);
    memset(text, ' ', fill);
    CHECK(write(ends[1], text, fill) == (ssize_t)fill);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        become(what, with_stderr ? ends[1] : -1);
    close(ends[1]);
    if (fill > 0)
        usleep(300000); /* the program finds the pipe full, and then there is room */
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], text + length, TEXT_MAX - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    CHECK_SAY(waitpid(child, &status, 0) == child && status == 0, "%s: status %d", what, status);
    return length - fill;
}

static size_t scratch_bytes(void) {
    struct stat file;
    CHECK(stat(scratch, &file) == 0);
    return (size_t)file.st_size;
}

static void is_whole(const char *what, size_t bytes) {
    CHECK_SAY(bytes >= STATS_MIN, "%s: %zu bytes of statistics", what, bytes);
    CHECK_SAY(strstr(text, "\"program\": \"") != NULL && strcmp(strrchr(text, ']'), "]\n}\n") == 0, "%s: cut", what);
}

static int test(char *self) {
    static char name[] = "/tmp/hakmem-exit-stats-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    program = self, scratch = name;
    text = malloc(TEXT_MAX);
    CHECK(text != NULL);
    int daemons[2]; /* their standard input ends when we do */
    CHECK(pipe2(daemons, O_CLOEXEC) == 0 && dup2(daemons[0], STDIN_FILENO) == STDIN_FILENO && close(daemons[0]) == 0);

    is_whole("plain", said("plain", true, 0));
    is_whole("old", said("old", true, 0));
    is_whole("closed", said("closed", true, 0));
    is_whole("few_numbers", said("few_numbers", true, 0));
    is_whole("database", said("database", true, 0));
    is_whole("output", said("output", true, 0));
    is_whole("late", said("late", true, 0));
    is_whole("numbers", said("numbers", true, 0));
    is_whole("child_output", said("child_output", true, 0));
    CHECK(scratch_bytes() == 0);
    is_whole("child_log", said("child_log", true, 0));
    CHECK(scratch_bytes() >= STATS_MIN && truncate(scratch, 0) == 0);
    CHECK(said("without", false, 0) == 0 && scratch_bytes() == 0);
    is_whole("daemon", said("daemon", true, 0));
    is_whole("nonblocking", said("nonblocking", true, 65536));
    unlink(scratch);
    return TEST_PASS;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"closed", runs_closed},
                 {"database", runs_database},
                 {"output", runs_output},
                 {"late", runs_late},
                 {"child_output", runs_child_output},
                 {"child_log", runs_child_log},
                 {"numbers", runs_numbers},
                 {"few_numbers", runs_few_numbers},
                 {"nonblocking", runs_nonblocking},
                 {"without", runs_without},
                 {"daemon", runs_daemon}};
    test_require_hakmem();
    test_alarm(60);
    if (argc < 3)
        return test(argv[0]);
    scratch = argv[2];
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            modes[i].run();
    return TEST_PASS;
}
