/* SPDX-License-Identifier: MIT
 *
 * The helper thread: it is alive from the start until the process no longer lists it, runs with all signals blocked
 * under its own name, leaves the caller's signals as they were, and its stack serves the next one.
 */
#include "check.h"
#include "sys/sys.h"

#include <signal.h>
#include <stdatomic.h>

enum { ROUNDS = 50 };

static sys_helper_t thread;
static _Atomic uint32_t go_on, runs, thread_id, added;

static void helper(void) {
    atomic_store(&thread_id, sys_thread_id());
    atomic_fetch_add(&runs, atomic_load(&added));
    sys_futex_wake(&thread_id, 1);
    while (atomic_load(&go_on) == 0)
        sys_futex_wait(&go_on, 0, UINT32_MAX);
}

/* One line of /proc/self/task/<helper>/<file>. */
static void read_line(const char *file, const char *start, char *line, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%u/%s", atomic_load(&thread_id), file);
    FILE *in = fopen(path, "r");
    CHECK(in != NULL);
    while (fgets(line, (int)size, in) != NULL && strncmp(line, start, strlen(start)) != 0)
        continue;
    fclose(in);
}

static void look_at_it(void) {
    char line[256];
    read_line("comm", "", line, sizeof line);
    CHECK_STR(line, "hakmem\n");
    read_line("status", "SigBlk:", line, sizeof line);
    uint64_t blocked = strtoull(line + 7, NULL, 16), stoppers = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1)
                                                                                                   << (SIGSTOP - 1);
    CHECK((blocked | stoppers | UINT64_C(3) << 31) == UINT64_MAX);
}

static void round_of(uint32_t add, bool look) {
    atomic_store(&go_on, 0);
    atomic_store(&thread_id, 0);
    atomic_store(&added, add);
    CHECK_EQ(sys_helper_start(helper, &thread), 0);
    while (atomic_load(&thread_id) == 0)
        sys_futex_wait(&thread_id, 0, 1000);
    CHECK(atomic_load(&thread_id) != sys_thread_id());
    CHECK(sys_helper_is_alive(&thread) && sys_helper_is_here(&thread));
    if (look)
        look_at_it();
    atomic_store(&go_on, 1);
    sys_futex_wake(&go_on, 1);
    CHECK(sys_helper_wait(&thread));
    CHECK(!sys_helper_is_alive(&thread) && !sys_helper_is_here(&thread));
}

int main(void) {
    if (HK_TSAN)
        return check_skip("ThreadSanitizer knows no thread but its own");
    sigset_t some, before, after;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    CHECK(sigprocmask(SIG_SETMASK, &some, NULL) == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &before) == 0);
    round_of(1000, true);
    void *stack = thread.stack;
    for (uint32_t i = 0; i < ROUNDS; i++)
        round_of(1, false);
    CHECK(thread.stack == stack);
    CHECK_EQ(atomic_load(&runs), 1000 + ROUNDS);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &after) == 0);
    CHECK(sigismember(&after, SIGUSR2) == 1 && sigismember(&after, SIGUSR1) == 0);
    return CHECK_PASS;
}
