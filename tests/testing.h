/* SPDX-License-Identifier: MIT
 *
 * testing.h: what the test programs share beside the checks of check.h. Header only, C17 and C++17; include it first.
 *
 * Most programs run under LD_PRELOAD=libhakmem.so and call the C names; those that only make sense on hakmem begin with
 * test_require_hakmem(). TEST_ANY_MALLOC=1 in the environment lifts that, to try a test on another allocator.
 *
 * Nothing here allocates: memory comes from test_pages (mmap), text goes through a buffer on the stack.
 */
#ifndef HAKMEM_TESTING_H
#define HAKMEM_TESTING_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "hakmem.h"

#define TEST_KIB ((size_t)1024)
#define TEST_MIB (TEST_KIB * 1024)
#define TEST_GIB (TEST_MIB * 1024)

#define TEST_UNUSED __attribute__((unused))

enum { TEST_PASS = CHECK_PASS, TEST_FAIL = CHECK_FAIL, TEST_SKIP = CHECK_SKIP };

/* --- Time and hangs --------------------------------------------------------------------------------------------- */

static inline uint64_t test_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void test_sleep_us(unsigned microseconds) {
    struct timespec pause = {(time_t)(microseconds / 1000000u), (long)(microseconds % 1000000u) * 1000L};
    nanosleep(&pause, NULL);
}

static void test_on_alarm(int signal_number) {
    (void)signal_number;
    static const char text[] = "failed: hangs (alarm)\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(TEST_FAIL);
}

/* How much longer anything may take on a machine with other work: with eight busy threads beside it, on two processors,
 * a test has a tenth of what it has alone. Bounds that only end what hangs are so many times what is needed. */
enum { TEST_PATIENCE = 10 };

/* The process fails after `seconds`, on a busy machine TEST_PATIENCE times as many. A forked child must call it anew:
 * alarms are not inherited. */
static inline void test_alarm(unsigned seconds) {
    signal(SIGALRM, test_on_alarm);
    alarm(seconds * TEST_PATIENCE);
}

/* --- Memory that is not the allocator's -------------------------------------------------------------------------- */

static inline void *test_pages(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

/* Hides from the compiler where a pointer or a size comes from, so that a bug made on purpose compiles as written. */
static inline void *test_opaque(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

static inline size_t test_opaque_size(size_t n) {
    __asm__ volatile("" : "+r"(n));
    return n;
}

/* --- Random numbers and patterns --------------------------------------------------------------------------------- */

/* splitmix64 (S. Vigna, public domain). Any state will do. */
static inline uint64_t test_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline size_t test_random_below(uint64_t *state, size_t bound) { return (size_t)(test_random(state) % bound); }

/* 1 to `max`, every doubling equally likely. */
static inline size_t test_random_log_size(uint64_t *state, size_t max) {
    unsigned bits = 64u - (unsigned)__builtin_clzll((unsigned long long)max);
    size_t top = (size_t)1 << test_random_below(state, bits);
    size_t size = top + test_random_below(state, top);
    return size > max ? max : size;
}

static inline uint64_t test_pattern_word(uint64_t seed, size_t index) {
    return (seed + index) * UINT64_C(0x9e3779b97f4a7c15) ^ (seed >> 7);
}

static inline void test_fill(void *p, size_t size, uint64_t seed) {
    unsigned char *bytes = (unsigned char *)p;
    size_t words = size / 8;
    for (size_t i = 0; i < words; i++) {
        uint64_t word = test_pattern_word(seed, i);
        memcpy(bytes + i * 8, &word, 8);
    }
    uint64_t last = test_pattern_word(seed, words);
    memcpy(bytes + words * 8, &last, size % 8);
}

/* True when the first `size` bytes at `p` still hold what test_fill wrote there. */
static inline bool test_holds(const void *p, size_t size, uint64_t seed) {
    const unsigned char *bytes = (const unsigned char *)p;
    size_t words = size / 8;
    uint64_t difference = 0;
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, bytes + i * 8, 8);
        difference |= word ^ test_pattern_word(seed, i);
    }
    uint64_t last = test_pattern_word(seed, words);
    return difference == 0 && memcmp(bytes + words * 8, &last, size % 8) == 0;
}

static inline bool test_is_zero(const void *p, size_t size) {
    const unsigned char *bytes = (const unsigned char *)p;
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* --- The process -------------------------------------------------------------------------------------------------- */

/* The number behind `name` in a text of the kernel's, -1 when it has none. */
static inline long test_figure_of(const char *path, const char *name) {
    char text[32768];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t size = 0;
    for (ssize_t n; size < sizeof text - 1 && (n = read(fd, text + size, sizeof text - 1 - size)) > 0;)
        size += (size_t)n;
    close(fd);
    text[size] = 0;
    const char *line = strstr(text, name);
    return line == NULL ? -1 : strtol(line + strlen(name), NULL, 10);
}

/* What of this process is in huge pages, and how often the kernel had none at hand since it started. */
static inline long test_huge_kib(void) { return test_figure_of("/proc/self/smaps_rollup", "AnonHugePages:"); }
static inline long test_huge_refused(void) { return test_figure_of("/proc/vmstat", "thp_fault_fallback "); }

/* Skips the test where the kernel gives no huge pages on request, or gives them to everybody. */
static inline void test_require_huge_pages(void) {
    char enabled[64] = "";
    int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, enabled, sizeof enabled - 1) <= 0 || strstr(enabled, "[madvise]") == NULL)
        test_skip("huge pages are not to be had on request");
    close(fd);
}

/* A figure of /proc/self/status in KiB ("VmRSS:", "VmSize:", "VmHWM:"), -1 when it has none. */
static inline long test_status_kib(const char *name) { return test_figure_of("/proc/self/status", name); }

/* Resident memory now, exact, as all that tests say about memory is: the counters of /proc/self/status and statm lag
 * behind by up to 64 pages for each processor or thread. */
static inline long test_rss_kib(void) {
    long kib = test_figure_of("/proc/self/smaps_rollup", "Rss:");
    return kib >= 0 ? kib : test_status_kib("VmRSS:");
}

/* The part of it that is the process's alone. The rest are pages of files: how many of those are mapped with the one
 * that is touched depends on what others have read. */
static inline long test_anonymous_kib(void) { return test_figure_of("/proc/self/smaps_rollup", "Anonymous:"); }

/* --- Waiting for what comes by itself ----------------------------------------------------------------------------- */

/* How long the thread of that number was ready and had no processor, by the second figure of its schedstat; 0 when it
 * has ended. */
static inline int64_t test_withheld_of(int tasks, const char *number) {
    char path[64], text[96];
    snprintf(path, sizeof path, "%s/schedstat", number);
    int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = 0;
    char *second = strchr(text, ' ');
    return second == NULL ? 0 : strtoll(second, NULL, 10);
}

/* The same for all threads but the caller, who only looks; -1 where the kernel does not count it. */
static inline int64_t test_withheld_ns(void) {
    char buffer[8192] __attribute__((aligned(8)));
    int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char self[24];
    snprintf(self, sizeof self, "%ld", (long)syscall(SYS_gettid));
    int64_t sum = 0;
    for (long size; tasks >= 0 && (size = syscall(SYS_getdents64, tasks, buffer, sizeof buffer)) > 0;)
        for (long at = 0; at < size;) {
            const char *entry = buffer + at; /* a number, an offset, a length of two bytes, a kind, and the name */
            uint16_t length;
            memcpy(&length, entry + 16, sizeof length);
            if (entry[19] != '.' && strcmp(entry + 19, self) != 0)
                sum += test_withheld_of(tasks, entry + 19);
            at += length;
        }
    if (tasks >= 0)
        close(tasks);
    return access("/proc/self/schedstat", R_OK) == 0 ? sum : -1;
}

/* What is promised within a time does not count the time in which the process's threads waited for a processor: that is
 * not hakmem's. It is stretched by TEST_PATIENCE at most, and by that where the kernel does not count.
 *
 *   for (test_wait_t wait = test_wait_for(3000); !it_is_so() && test_wait_more(&wait);)
 *       ;
 */
typedef struct test_wait {
    uint64_t begin_ns, limit_ns;
    int64_t withheld_ns;
} test_wait_t;

static inline test_wait_t test_wait_for(unsigned milliseconds) {
    test_wait_t wait = {test_now_ns(), (uint64_t)milliseconds * 1000000u, test_withheld_ns()};
    return wait;
}

/* Sleeps for a moment; false when the time is over. */
static inline bool test_wait_more(const test_wait_t *wait) {
    uint64_t passed = test_now_ns() - wait->begin_ns;
    if (passed >= wait->limit_ns) {
        int64_t now = wait->withheld_ns < 0 ? -1 : test_withheld_ns(), withheld = now - wait->withheld_ns;
        bool counted = now >= 0 && (withheld < 0 || passed - wait->limit_ns >= (uint64_t)withheld);
        if (counted || passed >= wait->limit_ns * TEST_PATIENCE)
            return false;
    }
    test_sleep_us(50000);
    return true;
}

static inline unsigned test_waited_ms(const test_wait_t *wait) {
    return (unsigned)((test_now_ns() - wait->begin_ns) / 1000000u);
}

/* --- Threads ------------------------------------------------------------------------------------------------------ */

static inline pthread_t test_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run, argument);
    CHECK_SAY(error == 0, "pthread_create: %d", error);
    return thread;
}

static inline void test_join(pthread_t thread) { CHECK(pthread_join(thread, NULL) == 0); }

/* --- hakmem's own interface, when it is there --------------------------------------------------------------------- */

#ifdef TEST_STATIC

static inline bool test_on_hakmem(void) { return hak_version() > 0; }
static inline size_t test_heap_violations(void) { return hak_check(); }
static inline size_t test_trim(void) { return hak_trim(); }
static inline int test_stats(hak_stats_t *stats) {
    memset(stats, 0, sizeof *stats);
    stats->struct_size = sizeof *stats;
    return hak_stats_get(stats);
}

#else

/* A data pointer as a function pointer, which ISO C has no cast for and POSIX promises to work. */
#define TEST_SYMBOL(variable, name)                                                                                    \
    do {                                                                                                               \
        void *symbol_address = dlsym(RTLD_DEFAULT, name);                                                              \
        memcpy(&(variable), &symbol_address, sizeof(void *));                                                          \
    } while (0)

/* True when `malloc` is the one of the library that also has hak_version. */
static inline bool test_on_hakmem(void) {
    Dl_info ours, theirs;
    void *version = dlsym(RTLD_DEFAULT, "hak_version");
    void *allocate = dlsym(RTLD_DEFAULT, "malloc");
    return version != NULL && allocate != NULL && dladdr(version, &ours) != 0 && dladdr(allocate, &theirs) != 0 &&
           ours.dli_fbase == theirs.dli_fbase;
}

/* hak_check(), or 0 on another allocator. */
static inline size_t test_heap_violations(void) {
    size_t (*check)(void);
    TEST_SYMBOL(check, "hak_check");
    return check == NULL ? 0 : check();
}

static inline size_t test_trim(void) {
    size_t (*trim)(void);
    TEST_SYMBOL(trim, "hak_trim");
    return trim == NULL ? 0 : trim();
}

/* A snapshot; ENOSYS, and all zero, on another allocator. */
static inline int test_stats(hak_stats_t *stats) {
    int (*get)(hak_stats_t *);
    TEST_SYMBOL(get, "hak_stats_get");
    memset(stats, 0, sizeof *stats);
    stats->struct_size = sizeof *stats;
    return get == NULL ? ENOSYS : get(stats);
}

#endif

static inline void test_require_hakmem(void) {
    if (!test_on_hakmem() && getenv("TEST_ANY_MALLOC") == NULL)
        test_fail("failed: this process does not run on hakmem\n");
}

#define CHECK_HEAP()                                                                                                   \
    do {                                                                                                               \
        size_t violations = test_heap_violations();                                                                    \
        CHECK_SAY(violations == 0, "%zu violations", violations);                                                      \
    } while (0)

#endif
