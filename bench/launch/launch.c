// SPDX-License-Identifier: MIT
// launch FD [NAME=VALUE]... -- PROGRAM ARGS...: runs one program for the bench tool and reports what it cost.
// The kernel counts the memory of whoever calls exec into the peak of the new program, so a small process has to do it.
// Writes to FD "pid=N" at once, and a line of name=value pairs when the program has ended. Only the program gets the
// environment given here. When the program ends, or the tool, what the program has left behind is killed, whatever
// group or session it has made for itself: orphans become children of this process.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t micros(struct timeval t) { return t.tv_sec * INT64_C(1000000) + t.tv_usec; }

// A round for each generation. Calls nothing that a signal handler may not.
static void kill_children(void) {
    char list[4096];
    for (;;) {
        int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC), killed = 0;
        ssize_t length = fd < 0 ? 0 : read(fd, list, sizeof list);
        if (fd >= 0)
            close(fd);
        pid_t pid = 0;
        for (ssize_t i = 0; i < length; i++) {
            if (list[i] != ' ') {
                pid = pid * 10 + (list[i] - '0');
                continue;
            }
            killed += kill(pid, SIGKILL) == 0;
            pid = 0;
        }
        if (killed == 0)
            return;
        while (waitpid(-1, NULL, 0) < 0 && errno == EINTR) {
        }
    }
}

static void end(int number) {
    (void)number;
    kill_children();
    _exit(1);
}

static void run_child(char **environment, char **program) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (; strcmp(*environment, "--") != 0; environment++)
        putenv(*environment);
    execvp(program[0], program);
    dprintf(STDERR_FILENO, "launch: %s: %s\n", program[0], strerror(errno));
    _exit(127);
}

static void report(int fd, int64_t wall, int status, const struct rusage *u) {
    dprintf(fd, "wall_ns=%lld user_us=%lld system_us=%lld peak_kib=%ld minor_faults=%ld major_faults=%ld ",
            (long long)wall, (long long)micros(u->ru_utime), (long long)micros(u->ru_stime), u->ru_maxrss, u->ru_minflt,
            u->ru_majflt);
    dprintf(fd, "voluntary_switches=%ld involuntary_switches=%ld exit=%d signal=%d\n", u->ru_nvcsw, u->ru_nivcsw,
            WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int main(int argc, char **argv) {
    int separator = 2;
    while (separator < argc && strcmp(argv[separator], "--") != 0)
        separator++;
    if (argc < 4 || separator + 1 >= argc) {
        fputs("usage: launch FD [NAME=VALUE]... -- PROGRAM ARGS...\n", stderr);
        return 2;
    }
    int fd = atoi(argv[1]);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    signal(SIGTERM, end); // from the tool, or from the kernel when the tool has died
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int64_t begin = now_ns();
    pid_t child = fork();
    if (child == 0)
        run_child(argv + 2, argv + separator + 1);
    dprintf(fd, "pid=%d\n", (int)child);
    int status = 0;
    struct rusage usage = {0};
    while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    report(fd, now_ns() - begin, status, &usage);
    kill_children();
    return 0;
}
