/* SPDX-License-Identifier: MIT
 *
 * Every system call of the allocator fails once: its first use, its second, and so on to its last.
 *
 *   nth_call LIBRARY KIND THREADS    KIND: small, large, huge, heaps, purge
 *   nth_call LIBRARY old THREADS     kernels that lack a call, or a flag of one, from the start to the end
 *
 * The program traces itself as a child under LD_PRELOAD (ptrace) and makes those calls fail that come from the library.
 * While they do, a request may fail, with ENOMEM; no block has other bytes than were written, and none is given away
 * twice. Then everything works again, and hak_check finds nothing.
 */
#include "testing.h"

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* --- What is done while calls fail -------------------------------------------------------------------------------- */

enum {
    PHASE_CALL = 99999, /* no system call: tells the tracer that nothing fails from here on */
    BLOCKS = 400,
    ROUNDS = 3,
    SECONDS = 20,
};

typedef struct block {
    unsigned char *at;
    size_t size;
    uint64_t seed;
} block_t;

typedef struct job {
    const char *kind;
    bool strict; /* no request may fail */
    uint64_t random;
} job_t;

static size_t pick(job_t *job) {
    if (strcmp(job->kind, "large") == 0)
        return 300 * TEST_KIB + test_random_below(&job->random, 6 * TEST_MIB);
    if (strcmp(job->kind, "huge") == 0)
        return TEST_GIB + 1 + test_random_below(&job->random, 200 * TEST_MIB);
    return 1 + test_random_log_size(&job->random, 100000);
}

/* Ends of long blocks, as whole ones would take too long. */
static void fill(const block_t *b) {
    size_t part = b->size < 4096 ? b->size : 4096;
    test_fill(b->at, part, b->seed);
    test_fill(b->at + b->size - part, part, b->seed);
}

static bool holds(const block_t *b) {
    size_t part = b->size < 4096 ? b->size : 4096;
    return test_holds(b->at + b->size - part, part, b->seed) &&
           (b->size < 2 * part || test_holds(b->at, part, b->seed));
}

static void may_fail(const job_t *job, const char *what, size_t size) {
    CHECK_SAY(!job->strict, "%s of %zu bytes fails though nothing does any more: %s", what, size, strerror(errno));
    CHECK_SAY(errno == ENOMEM || errno == EAGAIN, "%s of %zu bytes: %s", what, size, strerror(errno));
}

static void take(job_t *job, block_t *b, hak_heap_t *heap) {
    size_t size = pick(job);
    unsigned how = (unsigned)test_random_below(&job->random, 4);
    errno = 0;
    unsigned char *p = heap != NULL ? hak_heap_malloc(heap, size)
                       : how == 0   ? calloc(1, size)
                       : how == 1   ? aligned_alloc(4096, (size + 4095) & ~(size_t)4095)
                                    : malloc(size);
    if (p == NULL) {
        may_fail(job, "malloc", size);
        return;
    }
    for (size_t i = 0; how == 0 && heap == NULL && i<size; i += size> 64 * TEST_MIB ? size / 64 : 4096)
        CHECK_SAY(p[i] == 0 && p[size - 1] == 0, "calloc of %zu bytes at %p: byte %zu", size, (void *)p, i);
    *b = (block_t){p, size, test_random(&job->random)};
    fill(b);
}

static void drop(block_t *b) {
    if (b->at == NULL)
        return;
    CHECK_SAY(holds(b), "block %p of %zu bytes changed", (void *)b->at, b->size);
    free(b->at);
    b->at = NULL;
}

static void resize(job_t *job, block_t *b) {
    size_t size = pick(job);
    if (b->at == NULL)
        return;
    CHECK(holds(b));
    errno = 0;
    unsigned char *p = realloc(b->at, size);
    if (p == NULL) {
        may_fail(job, "realloc", size);
        CHECK(holds(b)); /* as it was */
        return;
    }
    size_t kept = size < b->size ? size : b->size, part = b->size < 4096 ? b->size : 4096;
    if (b->size <= part || b->size >= 2 * part)
        CHECK_SAY(test_holds(p, kept < part ? kept : part, b->seed), "realloc to %zu bytes at %p", size, (void *)p);
    *b = (block_t){p, size, test_random(&job->random)};
    fill(b);
}

static void *work(void *argument) {
    job_t *job = argument;
    static __thread block_t blocks[BLOCKS];
    unsigned count = strcmp(job->kind, "huge") == 0 ? 3 : strcmp(job->kind, "large") == 0 ? 12 : BLOCKS;
    for (unsigned round = 0; round < ROUNDS; round++) {
        hak_heap_t *heap = NULL;
        if (strcmp(job->kind, "heaps") == 0 && (heap = hak_heap_new(NULL)) == NULL)
            may_fail(job, "hak_heap_new", 0);
        for (unsigned i = 0; i < count; i++)
            take(job, &blocks[i], i % 2 == 0 ? heap : NULL);
        for (unsigned i = 0; i < count; i += 3)
            resize(job, &blocks[i]);
        for (unsigned i = 0; i < count; i++)
            drop(&blocks[i]);
        if (heap != NULL)
            hak_heap_destroy(heap);
        if (strcmp(job->kind, "purge") == 0)
            (void)hak_trim();
    }
    return NULL;
}

static void run_all(const char *kind, unsigned threads, bool strict) {
    job_t jobs[8] = {0};
    pthread_t ids[8];
    for (unsigned i = 0; i < threads; i++)
        jobs[i] = (job_t){kind, strict, i + 1};
    if (threads == 1) {
        (void)work(&jobs[0]);
        return;
    }
    for (unsigned i = 0; i < threads; i++)
        ids[i] = test_thread(work, &jobs[i]);
    for (unsigned i = 0; i < threads; i++)
        test_join(ids[i]);
}

static int worker(const char *kind, unsigned threads) {
    test_require_hakmem();
    test_alarm(SECONDS);
    run_all(kind, threads, false);
    (void)syscall(PHASE_CALL);
    run_all(kind, threads, true);
    CHECK_HEAP();
    return TEST_PASS;
}

#if defined(__x86_64__)

/* --- The tracer --------------------------------------------------------------------------------------------------- */

static const struct call {
    long number;
    const char *name;
    int error;
} calls[] = {
    {SYS_mmap, "mmap", ENOMEM},
    {SYS_munmap, "munmap", ENOMEM},
    {SYS_mremap, "mremap", ENOMEM},
    {SYS_madvise, "madvise", EAGAIN},
    {SYS_mincore, "mincore", EAGAIN},
    {SYS_openat, "openat", EMFILE},
    {SYS_read, "read", EIO},
    {SYS_pread64, "pread64", EIO},
    {SYS_clone, "clone", EAGAIN},
    {SYS_prctl, "prctl", EINVAL},
    {SYS_getrandom, "getrandom", ENOSYS},
    {SYS_sched_getaffinity, "sched_getaffinity", EPERM},
    {SYS_close_range, "close_range", ENOSYS},
    {SYS_statx, "statx", ENOSYS},
    {440, "process_madvise", EPERM},
    {SYS_rt_sigprocmask, "rt_sigprocmask", EINVAL},
    {SYS_prlimit64, "prlimit64", EPERM},

};
enum { CALLS = sizeof calls / sizeof calls[0], TIDS = 64 };

/* What fails: the n-th use of a call, or all that `lacks` says. */
typedef struct plan {
    const struct call *call;
    unsigned nth;
    bool (*lacks)(struct __ptrace_syscall_info *info, int *error, unsigned long long *flags);
} plan_t;

typedef struct run {
    pid_t leader;
    unsigned long long from, to; /* where the library lies */
    unsigned counts[CALLS];
    bool over; /* nothing fails any more */
    bool failed;
    struct {
        pid_t id;
        int error; /* what the call that it is in returns, if not 0 */
    } threads[TIDS];
} run_t;

static void find_library(run_t *run) {
    char path[64], line[600];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)run->leader);
    FILE *maps = fopen(path, "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long long from, to;
        if (strstr(line, "libhakmem") == NULL || sscanf(line, "%llx-%llx", &from, &to) != 2)
            continue;
        run->from = run->from == 0 ? from : run->from;
        run->to = to;
    }
    if (maps != NULL)
        fclose(maps);
}

static int *pending(run_t *run, pid_t id) {
    for (unsigned i = 0; i < TIDS; i++)
        if (run->threads[i].id == id || run->threads[i].id == 0) {
            run->threads[i].id = id;
            return &run->threads[i].error;
        }
    test_fail("too many threads\n");
}

static void at_entry(run_t *run, const plan_t *plan, pid_t id, struct __ptrace_syscall_info *info) {
    int error = 0;
    unsigned long long flags = info->entry.args[3];
    if (info->entry.nr == PHASE_CALL && plan->lacks == NULL)
        run->over = true;
    if (run->over || info->instruction_pointer < run->from || info->instruction_pointer >= run->to)
        return;
    for (unsigned i = 0; i < CALLS; i++)
        if (calls[i].number == (long)info->entry.nr && ++run->counts[i] == plan->nth && plan->call == &calls[i])
            error = calls[i].error;
    if (plan->lacks != NULL && plan->lacks(info, &error, &flags) && error == 0)
        CHECK(ptrace(PTRACE_POKEUSER, id, offsetof(struct user_regs_struct, r10), flags) == 0);
    if (error == 0)
        return;
    run->failed = true;
    *pending(run, id) = error;
    CHECK(ptrace(PTRACE_POKEUSER, id, offsetof(struct user_regs_struct, orig_rax), -1L) == 0);
}

static void at_stop(run_t *run, const plan_t *plan, pid_t id) {
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, id, sizeof info, &info) <= 0)
        return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        if (run->from == 0)
            find_library(run);
        at_entry(run, plan, id, &info);
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && *pending(run, id) != 0) {
        CHECK(ptrace(PTRACE_POKEUSER, id, offsetof(struct user_regs_struct, rax), -(long)*pending(run, id)) == 0);
        *pending(run, id) = 0;
    }
}

static void begin(run_t *run, const char *self, const char *library, const char *kind, const char *threads) {
    run->leader = fork();
    CHECK(run->leader >= 0);
    if (run->leader == 0) {
        CHECK(setenv("LD_PRELOAD", library, 1) == 0);
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
            test_skip("nobody may trace here");
        execl(self, self, "work", kind, threads, (char *)NULL);
        _exit(127);
    }
    int status;
    CHECK(waitpid(run->leader, &status, 0) == run->leader);
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    CHECK(ptrace(PTRACE_SETOPTIONS, run->leader, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) ==
          0);
    CHECK(ptrace(PTRACE_SYSCALL, run->leader, 0, 0) == 0);
}

/* Returns the worker's status. */
static int traced(run_t *run, const plan_t *plan, const char *const *names) {
    *run = (run_t){0};
    begin(run, names[0], names[1], names[2], names[3]);
    for (;;) {
        int status, signal_number = 0;
        pid_t id = waitpid(-1, &status, __WALL);
        CHECK(id > 0);
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (id == run->leader)
                return status;
            continue;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
            at_stop(run, plan, id);
        else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP)
            signal_number = WSTOPSIG(status);
        (void)ptrace(PTRACE_SYSCALL, id, 0, signal_number);
    }
}

static void expect_good(int status, const char *what, unsigned nth) {
    CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s number %u fails: status %x", what, nth,
              (unsigned)status);
}

static void each_once(const char *const *names) {
    run_t run, counted;
    unsigned runs = 0;
    expect_good(traced(&counted, &(plan_t){0}, names), "nothing", 0);
    CHECK(counted.counts[0] > 0);
    for (unsigned i = 0; i < CALLS; i++) {
        unsigned reached = 0;
        for (unsigned nth = 1; nth <= counted.counts[i]; nth++, runs++) {
            expect_good(traced(&run, &(plan_t){&calls[i], nth, NULL}, names), calls[i].name, nth);
            reached += run.failed;
        }
        test_say("%s: %u calls, %u failed\n", calls[i].name, counted.counts[i], reached);
    }
    CHECK(runs > 20);
}

/* --- Old kernels -------------------------------------------------------------------------------------------------- */

/* The flag is one that such a kernel does not look at: the address is a hint. */
static bool no_fixed_noreplace(struct __ptrace_syscall_info *info, int *error, unsigned long long *flags) {
    (void)error;
    if (info->entry.nr != SYS_mmap || (*flags & 0x100000) == 0)
        return false;
    *flags &= ~0x100000ull;
    return true;
}

static bool no_populate(struct __ptrace_syscall_info *info, int *error, unsigned long long *flags) {
    (void)flags;
    *error = info->entry.nr == SYS_madvise && info->entry.args[2] == MADV_POPULATE_WRITE ? EINVAL : 0;
    return *error != 0;
}

#define LACKS(name, call)                                                                                              \
    static bool no_##name(struct __ptrace_syscall_info *info, int *error, unsigned long long *flags) {                 \
        (void)flags;                                                                                                   \
        *error = info->entry.nr == (call) ? ENOSYS : 0;                                                                \
        return *error != 0;                                                                                            \
    }
LACKS(close_range, SYS_close_range)
LACKS(mincore, SYS_mincore)
LACKS(membarrier, SYS_membarrier)
LACKS(process_madvise, 440)
LACKS(getrandom, SYS_getrandom)
LACKS(statx, SYS_statx)

static void old_kernels(const char *const *names) {
    static const struct {
        const char *name;
        bool (*lacks)(struct __ptrace_syscall_info *info, int *error, unsigned long long *flags);
    } olds[] = {
        {"MAP_FIXED_NOREPLACE", no_fixed_noreplace},
        {"MADV_POPULATE_WRITE", no_populate},
        {"close_range", no_close_range},
        {"mincore", no_mincore},
        {"membarrier", no_membarrier},
        {"process_madvise", no_process_madvise},
        {"getrandom", no_getrandom},
        {"statx", no_statx},
    };
    static const char *const kinds[] = {"small", "large", "huge", "heaps", "purge"};
    for (unsigned i = 0; i < sizeof olds / sizeof olds[0]; i++)
        for (unsigned k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            run_t run;
            const char *const with_kind[] = {names[0], names[1], kinds[k], names[3]};
            expect_good(traced(&run, &(plan_t){NULL, 0, olds[i].lacks}, with_kind), olds[i].name, k);
        }
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "work") == 0)
        return worker(argv[2], (unsigned)atoi(argv[3]));
    CHECK_SAY(argc == 4, "usage: %s LIBRARY KIND THREADS", argv[0]);
    const char *const names[] = {argv[0], argv[1], argv[2], argv[3]};
    if (strcmp(argv[2], "old") == 0)
        old_kernels(names);
    else
        each_once(names);
    return TEST_PASS;
}

#else

int main(void) { return check_skip("only x86-64: how a call is made to fail differs"); }

#endif
