// SPDX-License-Identifier: MIT
// startup COUNT: starts the program "tiny", which lies beside this one, COUNT times one after the other, from the call
// to start it until its end. The preloaded allocator is inherited. Reports time per start, tiny's peak resident
// memory, and what tiny says of itself.
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

static void start(const char *path, const posix_spawn_file_actions_t *quiet, struct rusage *usage) {
    pid_t child;
    int status;
    char *argv[] = {(char *)(uintptr_t)path, NULL};
    if (posix_spawn(&child, path, quiet, NULL, argv, environ) != 0 || wait4(child, &status, 0, usage) != child)
        bench_fail("cannot start tiny");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_fail("tiny did not end well");
}

// Starts it once more, and prints the fields of its result line as the begin of ours.
static void print_fields_of_tiny(const char *path, struct rusage *usage) {
    int ends[2];
    char text[4096] = {0};
    posix_spawn_file_actions_t heard;
    posix_spawn_file_actions_init(&heard);
    if (pipe2(ends, O_CLOEXEC) != 0)
        bench_fail("no pipe");
    posix_spawn_file_actions_adddup2(&heard, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&heard, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    start(path, &heard, usage); // its few bytes fit into the pipe
    ssize_t length = read(ends[0], text, sizeof text - 1);
    char *end = strchr(text, '\n');
    if (length <= 0 || !end || strncmp(text, "result:", 7) != 0)
        bench_fail("tiny said nothing");
    *end = 0;
    fputs(text, stdout);
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
    start(path, &quiet, &usage);
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        start(path, &quiet, &usage);
    uint64_t elapsed = bench_now_ns() - begin;
    print_fields_of_tiny(path, &usage);
    bench_speed_fields((double)count, elapsed);
    bench_field("tiny_peak_kib", (double)usage.ru_maxrss);
    bench_field("tiny_faults", (double)usage.ru_minflt);
    bench_close_result();
    return 0;
}
