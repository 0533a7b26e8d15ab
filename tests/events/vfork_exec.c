/* SPDX-License-Identifier: MIT
 *
 * vfork + exec, posix_spawn, system and popen from a parent whose threads are allocating: the started programs run on
 * the allocator too, and the parent's heap is unharmed.
 */
#include "busy.h"

#include <spawn.h>
#include <sys/wait.h>

enum { THREADS = 3, ROUNDS = 60 };

extern char **environ;

static void expect(pid_t pid) {
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %#x", status);
}

static pid_t start_by_vfork(char *const *arguments) {
    pid_t pid = vfork();
    if (pid == 0) {
        execv("/proc/self/exe", arguments);
        _exit(9);
    }
    return pid;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(100);
    if (argc > 1) {
        for (size_t size = 1; size < TEST_MIB; size *= 2)
            free(malloc(size));
        return 7;
    }
    char child[] = "child";
    char *const arguments[] = {argv[0], child, NULL};
    pthread_t threads[THREADS];
    busy_start(threads, THREADS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        expect(start_by_vfork(arguments));
        pid_t pid = 0;
        CHECK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
        expect(pid);
        if (i % 10 == 0) {
            CHECK(system("true") == 0);
            FILE *pipe_end = popen("echo text", "r");
            char line[32] = "";
            CHECK(pipe_end != NULL && fgets(line, sizeof line, pipe_end) != NULL && strcmp(line, "text\n") == 0);
            CHECK(pclose(pipe_end) == 0);
        }
    }
    busy_end(threads, THREADS);
    CHECK_HEAP();
    return TEST_PASS;
}
