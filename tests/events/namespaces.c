/* SPDX-License-Identifier: MIT
 *
 * unshare and setns into a user namespace, which the kernel allows to processes of one thread only, just after much was
 * freed: hakmem's helper leaves for them, and comes back for what is freed later. So does the thread that watches
 * memory pressure.
 *
 *   namespaces [watched]
 */
#include "testing.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { BLOCKS = 60000, ROUNDS = 6, WAIT_MS = 3000 };

static char pipe_path[] = "/tmp/hakmem-namespaces-XXXXXX";

static void free_much(void) {
    static void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1000);
        memset(blocks[i], 1, 1000);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static long threads_now(void) { return test_status_kib("Threads:"); }

/* Until ours are there, which is the case at once unless the last ones are still about to leave. */
static void wait_for_threads(long count) {
    for (unsigned i = 0; i < WAIT_MS / 10 && threads_now() != count; i++) {
        test_sleep_us(10000);
        free_much();
    }
    CHECK_SAY(threads_now() == count, "%ld threads, %ld expected", threads_now(), count);
}

/* In a process of its own, because a namespace without mapped users has no others inside. */
static void leave_and_go_on(long threads) {
    free_much();
    wait_for_threads(threads);
    CHECK_SAY(unshare(CLONE_NEWUSER) == 0, "%s", strerror(errno));
    CHECK(threads_now() == 1);
    free_much();
    wait_for_threads(threads);
    CHECK_HEAP();
}

static void in_child(void (*run)(long), long threads) {
    int status = 0;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        test_alarm(30);
        run(threads);
        _exit(TEST_PASS);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == TEST_PASS);
}

/* A child that is elsewhere until `end` is closed; -1 when user namespaces are not permitted. */
static pid_t child_elsewhere(int *end) {
    int tell[2], ask[2];
    char answer = 'n';
    CHECK(pipe(tell) == 0 && pipe(ask) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(ask[1]);
        answer = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
        CHECK(write(tell[1], &answer, 1) == 1);
        _exit(read(ask[0], &answer, 1) == 0 ? TEST_PASS : TEST_FAIL);
    }
    close(ask[0]);
    CHECK(read(tell[0], &answer, 1) == 1);
    close(tell[0]);
    close(tell[1]);
    *end = ask[1];
    return answer == 'y' ? pid : -1;
}

static void follow(pid_t pid, int end) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int space = open(path, O_RDONLY | O_CLOEXEC), status = 0;
    CHECK_SAY(space >= 0 && setns(space, CLONE_NEWUSER) == 0, "%s", strerror(errno));
    close(space);
    close(end);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == TEST_PASS);
}

/* What has nothing to do with threads is the kernel's answer. */
static void check_answers(void) {
    char name[16] = "";
    errno = 0;
    CHECK(setns(-1, 0) == -1 && errno == EBADF);
    CHECK(unshare(-1) == -1 && errno == EINVAL);
    CHECK(unshare(0) == 0);
    CHECK(prctl(PR_SET_NAME, "elsewhere") == 0 && prctl(PR_GET_NAME, name) == 0 && strcmp(name, "elsewhere") == 0);
    CHECK(prctl(-1, 0, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 2, 0, 0, 0) == -1 && errno == EINVAL);
}

static void watch_pipe(char *program) {
    CHECK(mkdtemp(pipe_path) != NULL);
    char path[64];
    snprintf(path, sizeof path, "%s/pipe", pipe_path);
    CHECK(mkfifo(path, 0600) == 0 && setenv("MEMORY_PRESSURE_WATCH", path, 1) == 0);
    execl(program, program, "again", pipe_path, (char *)NULL);
    CHECK(false);
}

static void remove_pipe(const char *directory) {
    CHECK(unlink(getenv("MEMORY_PRESSURE_WATCH")) == 0 && rmdir(directory) == 0);
}

int main(int argc, char **argv) {
    test_alarm(60);
    test_require_hakmem();
    if (argc == 2)
        watch_pipe(argv[0]);
    bool watched = argc > 2;
    int end;
    pid_t pid = child_elsewhere(&end);
    if (pid > 0) {
        long threads = watched ? 3 : 2;
        check_answers();
        for (unsigned round = 0; round < ROUNDS; round++)
            in_child(leave_and_go_on, threads);
        free_much();
        wait_for_threads(threads);
        follow(pid, end);
    }
    if (watched)
        remove_pipe(argv[2]);
    if (pid < 0)
        test_skip("user namespaces are not permitted");
    CHECK_HEAP();
    return TEST_PASS;
}
