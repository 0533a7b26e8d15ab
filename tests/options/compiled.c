/* SPDX-License-Identifier: MIT
 *
 * Options that are compiled in (compiled_options.c): in force without a call, overridden by the environment, what is
 * wrong with them named; in a privileged program they are all there is. Each case is a run of this program anew.
 */
#include "testing.h"

#include <grp.h>
#include <sys/auxv.h>
#include <sys/stat.h>

static char text[16384];
static const char *self;

static void run_plain(void) {
    char *arguments[] = {(char *)(uintptr_t)self, "show", NULL}, *environment[] = {NULL};
    execve(self, arguments, environment);
}

static void run_overridden(void) {
    char *arguments[] = {(char *)(uintptr_t)self, "show", NULL};
    char *environment[] = {"HAKMEM_PURGE_DELAY=7", "HAKMEM_SAFE=1", NULL};
    execve(self, arguments, environment);
}

static const char *said(void (*run)(void), int fd) {
    CHECK_EQ(check_child(run, fd, text, sizeof text), 0);
    return text;
}

/* A user of no rights starts what is root's and has the set-uid bit: root reads the library wherever it lies. */
enum { NOBODY = 65534 };

static void run_by_nobody(void) {
    CHECK(setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
    run_overridden();
}

static void privileged(void) {
    char copy[] = "/tmp/compiled_XXXXXX", buffer[65536];
    if (geteuid() != 0)
        return;
    int to = mkstemp(copy), from = open(self, O_RDONLY | O_CLOEXEC);
    CHECK(to >= 0 && from >= 0);
    for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;)
        CHECK(write(to, buffer, (size_t)n) == n);
    CHECK(fchmod(to, 04755) == 0 && close(to) == 0 && close(from) == 0);
    self = copy;
    const char *got = said(run_by_nobody, STDOUT_FILENO);
    unlink(copy);
    if (strstr(got, "secure 0") != NULL)
        return; /* the bit has no effect here */
    CHECK_HAS(got, "secure 1\n");
    CHECK_HAS(got, "  HAKMEM_PURGE_DELAY    100        compiled in\n");
    CHECK_HAS(got, "  HAKMEM_SAFE           0          compiled in\n");
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) {
        free(malloc(10));
        test_say("secure %lu\n", getauxval(AT_SECURE));
        hak_options_print(STDOUT_FILENO);
        return TEST_PASS;
    }
    self = "/proc/self/exe";
    char path[4096];
    ssize_t length = readlink(self, path, sizeof path - 1);
    CHECK(length > 0);
    path[length] = 0;
    self = path;
    const char *got = said(run_plain, STDOUT_FILENO);
    CHECK_HAS(got, "  HAKMEM_PURGE_DELAY    100        compiled in\n");
    CHECK_HAS(got, "  HAKMEM_LIMIT          1G:2G      compiled in\n");
    CHECK_HAS(got, "  HAKMEM_SAFE           0          compiled in\n");
    CHECK_HAS(got, "  HAKMEM_ON_ERROR       report     compiled in\n");
    CHECK_HAS(got, "  HAKMEM_WARMUP         0          default\n");
    CHECK_HAS(got, "  HAKMEM_ADAPT          on         default\n");
    got = said(run_plain, STDERR_FILENO);
    CHECK_HAS(got, "hakmem: HAKMEM_SAEF is not an option; valid are HAKMEM_VERBOSE, ");
    CHECK_HAS(got, "hakmem: HAKMEM_ADAPT=perhaps: not valid, expected one of off, on; using on\n");
    CHECK_HAS(got, "hakmem: HAKMEM_HUGE=: not valid, expected one of auto, off, force; using auto\n");
    got = said(run_overridden, STDOUT_FILENO);
    CHECK_HAS(got, "  HAKMEM_PURGE_DELAY    7          environment\n");
    CHECK_HAS(got, "  HAKMEM_SAFE           1          environment\n");
    CHECK_HAS(got, "  HAKMEM_LIMIT          1G:2G      compiled in\n");
    privileged();
    return TEST_PASS;
}
