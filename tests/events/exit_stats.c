/* SPDX-License-Identifier: MIT
 *
 * Statistics at exit: to standard error, unless the program closed it or made a file of its own of descriptor 2, or to
 * a file that HAKMEM_STATS names. Each case is this program run again, with its standard error in a pipe that the case
 * reads to the end.
 */
#include "testing.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static const char *program, *scratch;
static char *text;
enum { TEXT_MAX = 1 << 20, STATS_MIN = 500, CHILDREN = 8, VALUE_MAX = 200 };

/* --- What the program does, run again ----------------------------------------------------------------------------- */

/* As all of GNU coreutils before they end. */
static void runs_closed(void) { close(STDERR_FILENO); }

static void reopen(int flags) {
    close(STDERR_FILENO);
    CHECK(open(scratch, flags) == STDERR_FILENO);
}

static void runs_database(void) { reopen(O_RDWR); }
static void runs_log(void) { reopen(O_WRONLY | O_APPEND); }

/* They end at about one time. */
static void runs_children(void) {
    int status = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            exit(0);
    }
    for (int i = 0; i < CHILDREN; i++)
        CHECK(wait(&status) > 0 && status == 0);
}

/* Asked for while it runs. */
static void runs_late(void) {
    int (*set)(const char *, const char *);
    int (*get)(const char *, char *, size_t);
    char value[VALUE_MAX], is[VALUE_MAX];
    TEST_SYMBOL(set, "hak_option_set");
    TEST_SYMBOL(get, "hak_option_get");
    snprintf(value, sizeof value, "json:%s", scratch);
    CHECK(set("STATS", value) == 0 && get("STATS", is, sizeof is) == 0 && strcmp(is, value) == 0);
    CHECK(set("STATS", "json:") == EINVAL && set("STATS", "off:file") == EINVAL && set("STATS", "yaml:file") == EINVAL);
}

static void on_timer(int number) { (void)number; }

/* The pipe is full, and signals come all the time. */
static void runs_nonblocking(void) {
    const struct itimerval often = {{0, 20000}, {0, 20000}};
    const struct sigaction action = {.sa_handler = on_timer};
    CHECK(fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK) == 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
}

/* A process that may open nothing any more. */
static void runs_confined(void) {
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {1, all};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

/* --- The cases ---------------------------------------------------------------------------------------------------- */

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

static void become(const char *what, const char *value, int stderr_end) {
    if (dup2(stderr_end, STDERR_FILENO) < 0)
        _exit(2);
    for (int fd = STDERR_FILENO + 1; fd < 20; fd++)
        close(fd);
    setenv("HAKMEM_STATS", value, 1);
    if (strcmp(what, "old") == 0)
        forbid_statx();
    execl(program, program, what, scratch, (char *)NULL);
    _exit(3);
}

static pid_t ended;

/* How many bytes came out of the pipe; they are in `text`. */
static size_t said(const char *what, const char *value, size_t fill) {
    int ends[2], status = 0;
    CHECK(pipe(ends) == 0);
    memset(text, ' ', fill);
    CHECK(write(ends[1], text, fill) == (ssize_t)fill);
    ended = fork();
    CHECK(ended >= 0);
    if (ended == 0)
        become(what, value, ends[1]);
    close(ends[1]);
    if (fill > 0)
        usleep(300000); /* the program finds the pipe full, and then there is room */
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], text + length, TEXT_MAX - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    CHECK_SAY(waitpid(ended, &status, 0) == ended && status == 0, "%s: status %d", what, status);
    return length - fill;
}

/* What the file holds, into `text`; the file is emptied. */
static size_t written(const char *path) {
    int fd = open(path, O_RDONLY);
    ssize_t length = read(fd, text, TEXT_MAX - 1);
    CHECK_SAY(length >= 0 && close(fd) == 0 && truncate(path, 0) == 0, "%s", path);
    text[length] = '\0';
    return (size_t)length;
}

static void is_whole(const char *what, size_t bytes) {
    CHECK_SAY(bytes >= STATS_MIN, "%s: %zu bytes of statistics", what, bytes);
    CHECK_SAY(strstr(text, "\"program\": \"") != NULL && strcmp(strrchr(text, ']'), "]\n}\n") == 0, "%s: cut", what);
}

static void to_stderr(void) {
    is_whole("plain", said("plain", "json", 0));
    is_whole("old", said("old", "json", 0));
    is_whole("nonblocking", said("nonblocking", "json", 65536));
    CHECK(said("closed", "json", 0) == 0);
    CHECK(said("database", "json", 0) == 0 && written(scratch) == 0);
    CHECK(said("log", "json", 0) == 0);
    is_whole("log", written(scratch));
}

static void to_file(void) {
    char value[VALUE_MAX], path[VALUE_MAX];
    snprintf(value, sizeof value, "json:%s", scratch);
    CHECK(said("closed", value, 0) == 0);
    is_whole("file", written(scratch));
    CHECK(said("late", "off", 0) == 0);
    is_whole("late", written(scratch));
    CHECK(said("children", value, 0) == 0);
    is_whole("children", written(scratch));
    unsigned whole = 0;
    for (const char *at = text; (at = strstr(at, "\n}\n")) != NULL; at += 3)
        whole += at[3] == '\0' || strncmp(at + 3, "{\n  \"version\"", 13) == 0;
    CHECK_SAY(whole == CHILDREN + 1, "%u of %d are whole", whole, CHILDREN + 1);
    snprintf(value, sizeof value, "json:%s.%%p.%%p.json", scratch);
    CHECK(said("plain", value, 0) == 0);
    snprintf(path, sizeof path, "%s.%d.%d.json", scratch, ended, ended);
    is_whole("number", written(path));
    unlink(path);
}

static void refused(void) {
    char value[VALUE_MAX], path[VALUE_MAX], expected[2 * VALUE_MAX];
    CHECK(said("plain", "text:/nowhere/at/all", 0) > 0);
    CHECK(strcmp(text, "hakmem: no statistics: cannot write to /nowhere/at/all: no such file or folder\n") == 0);
    CHECK(said("plain", "json:/dev/full", 0) > 0);
    CHECK(strcmp(text, "hakmem: no statistics: cannot write to /dev/full: no space left on the device\n") == 0);
    /* A pipe that nobody reads is not waited for. */
    snprintf(path, sizeof path, "%s.pipe", scratch);
    CHECK(mkfifo(path, 0600) == 0);
    snprintf(value, sizeof value, "text:%s", path);
    CHECK(said("plain", value, 0) > 0);
    snprintf(expected, sizeof expected, "hakmem: no statistics: cannot write to %s: nobody reads from it\n", path);
    CHECK_SAY(strcmp(text, expected) == 0, "%s", text);
    unlink(path);
    snprintf(value, sizeof value, "json:%s", scratch);
    CHECK(said("confined", value, 0) > 0 && strstr(text, "operation not permitted\n") != NULL);
    is_whole("confined", said("confined", "json", 0));
    CHECK(said("plain", "json:", 0) > 0);
    CHECK_SAY(strcmp(text,
                     "hakmem: HAKMEM_STATS=json:: not valid, expected one of off, text, json, the last two also with "
                     ":FILE; using off\n") == 0,
              "%s", text);
}

static int test(char *self) {
    static char name[] = "/tmp/hakmem-exit-stats-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && close(fd) == 0);
    program = self, scratch = name;
    text = malloc(TEXT_MAX);
    CHECK(text != NULL);
    to_stderr();
    to_file();
    refused();
    unlink(scratch);
    return TEST_PASS;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"closed", runs_closed},     {"database", runs_database}, {"log", runs_log},
                 {"children", runs_children}, {"late", runs_late},         {"nonblocking", runs_nonblocking},
                 {"confined", runs_confined}};
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
