// SPDX-License-Identifier: MIT
// startup COUNT: starts the program "tiny", which lies beside this one, COUNT times one after the other, from the call
// to start it until its end. The preloaded allocator is inherited. Reports time per start and tiny's peak resident
// memory.
#include "common.h"
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

static const char *path_of_tiny(char *path, size_t size) {
    ssize_t length = readlink("/proc/self/exe", path, size - 8);
    if (length <= 0)
        bench_fail("cannot find myself");
    path[length] = 0;
    strcpy(strrchr(path, '/') + 1, "tiny");
    return path;
}

static void start_quietly(const char *path, const posix_spawn_file_actions_t *quiet, struct rusage *usage) {
    pid_t child;
    int status;
    char *argv[] = {(char *)(uintptr_t)path, NULL};
    if (posix_spawn(&child, path, quiet, NULL, argv, environ) != 0 || wait4(child, &status, 0, usage) != child)
        bench_fail("cannot start tiny");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_fail("tiny did not end well");
}

int main(int argc, char **argv) {
    size_t count = bench_arg(argc, argv, 1, 200);
    char path[4096];
    path_of_tiny(path, sizeof path);
    bench_begin();
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    struct rusage usage;
    start_quietly(path, &quiet, &usage);
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        start_quietly(path, &quiet, &usage);
    bench_open_result();
    bench_speed_fields((double)count, bench_now_ns() - begin);
    bench_field("tiny_peak_kib", (double)usage.ru_maxrss);
    bench_field("tiny_faults", (double)usage.ru_minflt);
    bench_close_result();
    return 0;
}
