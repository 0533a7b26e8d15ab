/* SPDX-License-Identifier: MIT
 *
 * What a process is told: clock, random bytes, limits, environment, files; and its end, which no handler and no mask
 * averts.
 */
#include "check.h"
#include "sys/sys.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static char text[4096];

static void random_bytes(void) {
    unsigned char a[64], b[64];
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    sys_random(a, sizeof a);
    sys_random(b, sizeof b);
    CHECK(memcmp(a, b, sizeof a) != 0);
    size_t set = 0;
    for (size_t i = 0; i < sizeof a; i++)
        set += (size_t)__builtin_popcount(a[i]);
    CHECK(set > 150 && set < 362); /* of 512: ten sigma */
}

static void clock_runs(void) {
    uint64_t before = sys_now_ms();
    usleep(25000);
    uint64_t after = sys_now_ms();
    CHECK(after - before >= 10 && after - before < 60000);
}

static void limits(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(sys_address_space_limit() == (limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)limit.rlim_cur));
}

static void limit_in_child(void) {
    struct rlimit limit = {(rlim_t)1 << 46, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK_EQ(sys_address_space_limit(), (long long)1 << 46);
}

static void environment(void) {
    CHECK(setenv("HK_UNIT_PROBE", "42", 1) == 0);
    bool seen = false;
    for (char *const *at = sys_environment(); *at != NULL; at++)
        seen |= strcmp(*at, "HK_UNIT_PROBE=42") == 0;
    CHECK(seen);
}

static void files(void) {
    char start[5];
    long fd = sys_open_read("/proc/self/exe");
    CHECK(fd >= 0);
    CHECK_EQ(sys_read(fd, start, 4), 4);
    start[4] = 0;
    CHECK_STR(start, "\177ELF");
    sys_close(fd);
    CHECK(sys_read(fd, start, 4) < 0);
    CHECK(sys_open_read("/no/such/file") < 0);
}

static void writes(void) { sys_write_all(2, "one two three", 13); }

static void dies(void) { sys_abort(); }

static void dies_ignored(void) {
    CHECK(signal(SIGABRT, SIG_IGN) != SIG_ERR);
    sys_abort();
}

static void dies_blocked(void) {
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    sys_abort();
}

static void handler(int number) {
    (void)number;
    sys_write_all(2, "handled", 7);
}

static void dies_handled(void) {
    CHECK(signal(SIGABRT, handler) != SIG_ERR);
    sys_abort();
}

static void ends_by_abort(void (*body)(void), const char *said) {
    int status = check_child(body, 2, text, sizeof text);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    CHECK_STR(text, said);
}

int main(void) {
    random_bytes();
    clock_runs();
    limits();
    CHECK_EQ(check_child(limit_in_child, 2, text, sizeof text), 0);
    environment();
    files();
    CHECK(!sys_is_secure());
    CHECK_EQ(sys_thread_id(), syscall(SYS_gettid));
    CHECK_EQ(check_child(writes, 2, text, sizeof text), 0);
    CHECK_STR(text, "one two three");
    ends_by_abort(dies, "");
    ends_by_abort(dies_ignored, "");
    ends_by_abort(dies_blocked, "");
    ends_by_abort(dies_handled, "handled");
    return CHECK_PASS;
}
