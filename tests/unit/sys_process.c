/* SPDX-License-Identifier: MIT
 *
 * What a process is told: clock, random bytes, limits, environment, files; and its end, which no handler and no mask
 * averts.
 */
#include "check.h"
#include "sys/sys.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
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

static unsigned threads_before; /* a sanitizer has one of its own */

static void *counts(void *unused) {
    CHECK_EQ(sys_thread_count(), threads_before + 1);
    return unused;
}

static void threads_are_counted(void) {
    pthread_t thread;
    threads_before = sys_thread_count();
    CHECK(threads_before >= 1);
    CHECK(pthread_create(&thread, NULL, counts, NULL) == 0 && pthread_join(thread, NULL) == 0);
    for (unsigned i = 0; i < 10000 && sys_thread_count() > threads_before; i++)
        (void)usleep(1000); /* the kernel takes a thread out of its lists some time after it has said that it is gone */
    CHECK_EQ(sys_thread_count(), threads_before);
}

static void mark_in_child(pid_t (*forks)(void), uint32_t wanted) {
    int status = 1;
    pid_t child = forks();
    if (child == 0)
        _exit(sys_process_mark() == wanted ? CHECK_PASS : CHECK_FAIL);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    CHECK_EQ(sys_process_mark(), SYS_MARK_KNOWN);
}

static pid_t raw_fork(void) { return (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, 0UL, 0UL, 0UL, 0UL); }

/* Not all emulators do. */
static bool kernel_wipes(void) {
    size_t size = sys_page_size();
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    bool does = madvise(page, size, 18 /* MADV_WIPEONFORK */) == 0;
    CHECK(munmap(page, size) == 0);
    return does;
}

/* Inherited until the kernel is asked to wipe it; then new in each child, but in one that shares the memory. */
static void marks(void) {
    mark_in_child(fork, SYS_MARK_KNOWN);
    sys_process_mark_wipe();
    sys_process_mark_wipe();
    uint32_t wiped = kernel_wipes() ? SYS_MARK_NEW : SYS_MARK_KNOWN;
    mark_in_child(fork, wiped);
    mark_in_child(raw_fork, wiped);
    pid_t child = vfork();
    if (child == 0) /* ThreadSanitizer makes a fork of it */
        _exit(sys_process_mark() == (HK_TSAN ? wiped : SYS_MARK_KNOWN) ? CHECK_PASS : CHECK_FAIL);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    uint32_t from = SYS_MARK_NEW;
    CHECK(!sys_process_mark_change(&from, SYS_MARK_ATTENDED) && from == SYS_MARK_KNOWN);
    CHECK(sys_process_mark_change(&from, SYS_MARK_STRANDED) && sys_process_mark() == SYS_MARK_STRANDED);
    sys_process_mark_set(SYS_MARK_KNOWN);
}

/* A file may be made where the rights in force allow it, whoever the real user is. */
static void makes_a_file_by_rights_in_force(void) {
    char folder[] = "/tmp/hakmem-rights-XXXXXX", path[64];
    if (geteuid() != 0)
        return;
    CHECK(mkdtemp(folder) != NULL); /* its owner's alone */
    snprintf(path, sizeof path, "%s/log", folder);
    pid_t child = fork();
    if (child == 0) {
        const uid_t nobody = 65534;
        CHECK(setresuid(nobody, 0, 0) == 0);
        CHECK(sys_may_append(path) == 0);
        CHECK(setresuid(nobody, nobody, nobody) == 0);
        CHECK_EQ(sys_may_append(path), EACCES);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(rmdir(folder) == 0);
}

int main(void) {
    random_bytes();
    makes_a_file_by_rights_in_force();
    if (!HK_TSAN) /* which starts a thread of its own beside the first */
        threads_are_counted();
    marks();
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
