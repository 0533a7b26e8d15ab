/* SPDX-License-Identifier: MIT
 *
 * A program that puts itself under a filter which kills it at any system call but those that a sandboxed program
 * commonly lists may go on allocating and freeing, and what it frees comes back by its later calls. It is watched from
 * outside.
 *
 *   confined cold|warm|threads      nothing allocated before; a helper at work before; another thread under the same
 *                                   filter
 */
#include "testing.h"

#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SLOTS = 4096, MIXED_STEPS = 20000, LARGEST = 2 << 20, BLOCKS = 100000, THREAD_BLOCKS = 20000 };

static int ask_fd, answer_fd;

/* --- The filter --------------------------------------------------------------------------------------------------- */

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(brk),
    ALLOW(mmap),
    ALLOW(munmap),
    ALLOW(mremap),
    ALLOW(madvise),
    ALLOW(mprotect),
    ALLOW(futex),
    ALLOW(read),
    ALLOW(write),
    ALLOW(close),
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(getpid),
    ALLOW(gettid),
    ALLOW(rt_sigreturn),
    ALLOW(rt_sigprocmask),
    ALLOW(tgkill),
    ALLOW(nanosleep),
    ALLOW(clock_nanosleep),
    ALLOW(restart_syscall),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static const struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};

static void confine(bool all_threads) {
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (all_threads)
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0);
    else
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

/* --- Inside ------------------------------------------------------------------------------------------------------- */

/* A figure of this process, as seen from outside. */
static long ask(char what) {
    long figure = -1;
    CHECK(write(ask_fd, &what, 1) == 1 && read(answer_fd, &figure, sizeof figure) == (ssize_t)sizeof figure);
    return figure;
}

static void *blocks[BLOCKS];

static void burst(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1000);
        memset(blocks[i], 1, 1000);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

/* Some 200 MiB at a time: malloc, calloc and realloc of all sizes. */
static void mix(void) {
    static void *held[SLOTS];
    uint64_t random = 1;
    for (unsigned step = 0; step < MIXED_STEPS; step++) {
        size_t at = test_random_below(&random, SLOTS), size = test_random_log_size(&random, LARGEST);
        unsigned how = (unsigned)test_random_below(&random, 3);
        if (how == 0) {
            held[at] = realloc(held[at], size);
        } else {
            free(held[at]);
            held[at] = how == 1 ? malloc(size) : calloc(1, size);
        }
        CHECK(held[at] != NULL && (how != 2 || test_is_zero(held[at], size)));
        memset(held[at], 1, size);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        free(held[i]);
}

static void grow(void) {
    char *p = NULL;
    for (size_t size = TEST_MIB; size <= 200 * TEST_MIB; size += size / 2) {
        p = (char *)realloc(p, size);
        CHECK(p != NULL);
        memset(p, 1, size);
    }
    free(p);
    char *zero = (char *)calloc(1, 100 * TEST_MIB);
    CHECK(zero != NULL && test_is_zero(zero, 100 * TEST_MIB));
    free(zero);
    void *huge = malloc(3 * TEST_GIB / 2);
    huge = realloc(huge, 2 * TEST_GIB);
    CHECK(huge != NULL);
    free(huge);
}

/* What was freed goes back while the program makes some calls now and then, and the rest when it asks. */
static void check_return(void) {
    burst();
    long kib = LONG_MAX;
    const char *level = getenv("HAKMEM_SAFE");
    bool hardened = level != NULL && level[0] >= '2'; /* what was freed lately is kept aside */
    for (unsigned i = 0; i < 40 * TEST_PATIENCE && (i < 40 || (kib >= 64 * 1024 && !hardened)); i++) {
        test_sleep_us(50000);
        for (unsigned j = 0; j < 2000; j++)
            blocks[j] = malloc(1000);
        for (unsigned j = 0; j < 2000; j++)
            free(blocks[j]);
        kib = ask('r');
    }
    CHECK_SAY(kib < 64 * 1024 || hardened, "%ld KiB are left of a burst", kib);
    malloc_trim(0);
    CHECK_SAY(ask('r') < (hardened ? 80 : 40) * 1024, "%ld KiB are left after malloc_trim", ask('r'));
}

static _Atomic bool go_on;
static void *of_thread[THREAD_BLOCKS];

/* Its blocks are freed by another thread, and under the filter it frees those of another. */
static void *thread_run(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < THREAD_BLOCKS; i++)
        of_thread[i] = malloc(2000);
    atomic_store(&go_on, true);
    while (atomic_load(&go_on))
        test_sleep_us(1000);
    for (unsigned i = 0; i < THREAD_BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = malloc(3000);
    }
    return NULL;
}

static void swap_blocks(pthread_t thread) {
    for (unsigned i = 0; i < THREAD_BLOCKS; i++) {
        free(of_thread[i]);
        blocks[i] = malloc(1000);
    }
    atomic_store(&go_on, false);
    test_join(thread);
    for (unsigned i = 0; i < THREAD_BLOCKS; i++)
        free(blocks[i]);
}

/* A block of the C library's own malloc, NULL when that cannot be reached: freed by ours it goes back to where it is
 * from. */
static void *block_of_libc(void) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *found = libc != NULL ? dlsym(libc, "malloc") : NULL;
    void *(*allocate)(size_t) = NULL;
    memcpy(&allocate, &found, sizeof found);
    return allocate != NULL ? allocate(1000) : NULL;
}

static void inside(const char *kind) {
    test_require_hakmem();
    bool threads = strcmp(kind, "threads") == 0;
    if (strcmp(kind, "warm") == 0) {
        for (unsigned i = 0; i < 100 && ask('t') < 2; i++)
            burst();
        CHECK(ask('t') == 2);
    }
    pthread_t thread = threads ? test_thread(thread_run, NULL) : pthread_self();
    while (threads && !atomic_load(&go_on))
        test_sleep_us(1000);
    void *foreign = block_of_libc();
    confine(threads);
    free(foreign);
    CHECK(ask('t') == (threads ? 2 : 1));
    if (threads)
        swap_blocks(thread);
    burst();
    mix();
    grow();
    check_return();
    CHECK_HEAP();
    CHECK(ask('t') == 1);
}

/* --- Outside ------------------------------------------------------------------------------------------------------ */

static void answer(pid_t pid, int in, int out) {
    char status[64], rollup[64], what;
    snprintf(status, sizeof status, "/proc/%d/status", (int)pid);
    snprintf(rollup, sizeof rollup, "/proc/%d/smaps_rollup", (int)pid);
    while (read(in, &what, 1) == 1) {
        long figure = what == 't' ? test_figure_of(status, "Threads:") : test_figure_of(rollup, "Rss:");
        CHECK(write(out, &figure, sizeof figure) == (ssize_t)sizeof figure);
    }
}

int main(int argc, char **argv) {
    test_alarm(100);
    int asked[2], answered[2], status = 0;
    CHECK(argc == 2 && pipe(asked) == 0 && pipe(answered) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(asked[0]);
        close(answered[1]);
        ask_fd = asked[1];
        answer_fd = answered[0];
        inside(argv[1]);
        exit(TEST_PASS); /* prints statistics */
    }
    close(asked[1]);
    answer(pid, asked[0], answered[1]);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_SAY(WIFEXITED(status), "killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}
