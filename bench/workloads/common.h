// SPDX-License-Identifier: MIT
// What every workload shares: a clock, a random source, threads that start together, the result line, and the proof of
// which library serves malloc. Tables that belong to the harness come from bench_map(), never from the allocator under
// test, so that they count neither in its time nor in its memory.
#ifndef HAKMEM_BENCH_COMMON_H
#define HAKMEM_BENCH_COMMON_H

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BENCH_UNUSED __attribute__((unused))
#define KIB          ((size_t)1024)
#define MIB          ((size_t)1024 * 1024)

// ---- clock ----

static inline uint64_t bench_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void bench_sleep_ms(unsigned ms) {
    struct timespec t;
    t.tv_sec = (time_t)(ms / 1000);
    t.tv_nsec = (long)(ms % 1000) * 1000000;
    nanosleep(&t, NULL);
}

// Whether a load that began at `begin_ns` has run for its limit; 0 is no limit. An allocator a thousand times slower
// than the others then does less of the load instead of taking a thousand times as long: figures are per operation.
static inline int bench_is_over(uint64_t begin_ns, size_t limit_ms) {
    return limit_ms && bench_now_ns() - begin_ns >= limit_ms * 1000000u;
}

// ---- random numbers: xorshift64*, upper half ----

typedef struct {
    uint64_t state;
} bench_rng;

static inline bench_rng bench_rng_make(uint64_t seed) {
    bench_rng rng;
    rng.state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return rng;
}

static inline uint32_t bench_rng_next(bench_rng *rng) {
    uint64_t x = rng->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    rng->state = x;
    return (uint32_t)((x * UINT64_C(0x2545F4914F6CDD1D)) >> 32);
}

// Uniform below `bound` by multiplication, without a division.
static inline uint32_t bench_rng_below(bench_rng *rng, uint32_t bound) {
    return (uint32_t)(((uint64_t)bench_rng_next(rng) * bound) >> 32);
}

static inline size_t bench_rng_range(bench_rng *rng, size_t low, size_t high) {
    return low + bench_rng_below(rng, (uint32_t)(high - low + 1));
}

// ---- memory ----

// Makes the compiler believe that the block is used, so that no malloc/free pair is optimised away.
static inline void bench_keep(void *block) { __asm__ volatile("" : : "r"(block) : "memory"); }

static inline void bench_touch_ends(void *block, size_t size) {
    volatile char *bytes = (volatile char *)block;
    bytes[0] = 1;
    bytes[size - 1] = 2;
}

static inline void bench_touch_first(void *block) { *(volatile char *)block = 1; }

// Writes every byte again and again: quick in a cache line of one's own, slow in one that another thread writes too.
static inline void bench_scribble(char *block, size_t size, size_t repetitions) {
    volatile char *bytes = (volatile char *)memset(block, 0, size);
    for (size_t r = 0; r < repetitions; r++)
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)(bytes[i] + 1);
}

static inline void bench_fail(const char *what) {
    fprintf(stderr, "workload: %s\n", what);
    exit(3);
}

static inline void *bench_malloc(size_t size) {
    void *block = malloc(size);
    if (!block)
        bench_fail("malloc returned NULL");
    bench_keep(block);
    return block;
}

// Zeroed memory of the harness, resident from the start.
static inline void *bench_map(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED)
        bench_fail("mmap failed");
    return p;
}

// What /proc/self/smaps_rollup says of this process; reading it allocates nothing.
typedef struct {
    char text[4096];
} bench_smaps;

static inline bench_smaps bench_smaps_now(void) {
    bench_smaps now;
    now.text[0] = 0;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return now;
    ssize_t length = read(fd, now.text, sizeof now.text - 1);
    close(fd);
    now.text[length > 0 ? length : 0] = 0;
    return now;
}

// Value in KiB of its line "Rss:", "Pss:", "LazyFree:", "AnonHugePages:"; `key` begins with the end of the line before.
static inline size_t bench_smaps_kib(const bench_smaps *smaps, const char *key) {
    const char *line = strstr(smaps->text, key);
    return line ? (size_t)strtoul(line + strlen(key), NULL, 10) : 0;
}

static inline size_t bench_rss_kib(void) {
    bench_smaps now = bench_smaps_now();
    return bench_smaps_kib(&now, "\nRss:");
}

// Lets stdout print without a buffer from malloc: for workloads that print while they are measured.
static inline void bench_print_quietly(void) {
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}

// Resident KiB above `base`, also printed as a point of the series "series: t_ms rss_kib".
static inline size_t bench_sample_rss(uint64_t begin_ns, size_t base) {
    size_t rss = bench_rss_kib(), kib = rss > base ? rss - base : 0;
    printf("series: %.0f %zu\n", (double)(bench_now_ns() - begin_ns) / 1e6, kib);
    return kib;
}

// ---- arguments ----

static inline size_t bench_arg(int argc, char **argv, int index, size_t fallback) {
    if (index >= argc)
        return fallback;
    char *end = NULL;
    unsigned long long value = strtoull(argv[index], &end, 10);
    if (end == argv[index] || *end != 0) {
        fprintf(stderr, "%s: argument %d, '%s', is not a number\n", argv[0], index, argv[index]);
        exit(2);
    }
    return (size_t)value;
}

// Milliseconds of an argument in seconds, which may be a fraction.
static inline unsigned bench_arg_ms(int argc, char **argv, int index, double fallback) {
    char *end = NULL;
    double seconds = index < argc ? strtod(argv[index], &end) : fallback;
    if (index < argc && (end == argv[index] || *end != 0 || !(seconds >= 0 && seconds <= 86400))) {
        fprintf(stderr, "%s: argument %d, '%s', is not a number of seconds\n", argv[0], index, argv[index]);
        exit(2);
    }
    return (unsigned)(seconds * 1000);
}

static inline const char *bench_word(int argc, char **argv, int index, const char *fallback) {
    return index < argc ? argv[index] : fallback;
}

// ---- threads that start together ----

typedef struct {
    pthread_barrier_t *barrier;
    void (*body)(void *);
    void *argument;
} bench_start;

static inline void *bench_thread_main(void *p) {
    bench_start *start = (bench_start *)p;
    pthread_barrier_wait(start->barrier);
    start->body(start->argument);
    return NULL;
}

// Runs `body` once per element of `arguments` (each `stride` bytes) in its own thread; returns the elapsed time.
BENCH_UNUSED static uint64_t bench_threads(size_t count, void (*body)(void *), void *arguments, size_t stride) {
    pthread_barrier_t barrier;
    pthread_t *ids = (pthread_t *)bench_map(count * sizeof *ids);
    bench_start *starts = (bench_start *)bench_map(count * sizeof *starts);
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    for (size_t i = 0; i < count; i++) {
        starts[i].barrier = &barrier;
        starts[i].body = body;
        starts[i].argument = (char *)arguments + i * stride;
        if (pthread_create(&ids[i], NULL, bench_thread_main, &starts[i]) != 0)
            bench_fail("pthread_create failed");
    }
    uint64_t begin = bench_now_ns();
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
    uint64_t elapsed = bench_now_ns() - begin;
    pthread_barrier_destroy(&barrier);
    munmap(ids, count * sizeof *ids);
    munmap(starts, count * sizeof *starts);
    return elapsed;
}

// Waits politely: a few spins, then the processor goes to whoever we wait for.
static inline void bench_relax(unsigned *spins) {
    if (++*spins < 64) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        return;
    }
    sched_yield();
}

// ---- proof: which library do malloc, free and operator new come from? ----

static inline const char *bench_object_of(void *address) {
    Dl_info info;
    return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : "none";
}

// Written with one write(2) to the file named by HAKMEM_BENCH_PROOF, or to stderr; whether that was possible. Allocates
// nothing.
static inline int bench_write_to_proof(const char *line, int length) {
    const char *path = getenv("HAKMEM_BENCH_PROOF");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : STDERR_FILENO;
    int written = fd >= 0 && write(fd, line, (size_t)length) == length;
    if (path && fd >= 0)
        close(fd);
    return written;
}

static inline void bench_write_proof(void *malloc_at, void *free_at, void *new_at) {
    char line[4096];
    int length = snprintf(line, sizeof line, "allocator-proof: malloc=%s free=%s new=%s\n", bench_object_of(malloc_at),
                          bench_object_of(free_at), bench_object_of(new_at));
    if (!bench_write_to_proof(line, length))
        _exit(4);
}

static inline void bench_prove(void) {
    bench_write_proof((void *)(uintptr_t)malloc, (void *)(uintptr_t)free, dlsym(RTLD_DEFAULT, "_Znwm"));
}

// ---- the result line: "result: name=value ..." ----

static inline void bench_begin(void) { bench_prove(); }

static inline void bench_field(const char *name, double value) { printf(" %s=%.6g", name, value); }

// Called right after the timed part: what is resident then is a figure of every load.
static inline void bench_open_result(void) {
    bench_smaps now = bench_smaps_now();
    fputs("result:", stdout);
    bench_field("end_rss_kib", (double)bench_smaps_kib(&now, "\nRss:"));
    bench_field("end_pss_kib", (double)bench_smaps_kib(&now, "\nPss:"));
    bench_field("end_lazyfree_kib", (double)bench_smaps_kib(&now, "\nLazyFree:"));
    bench_field("end_huge_kib", (double)bench_smaps_kib(&now, "\nAnonHugePages:"));
}

static inline void bench_close_result(void) { puts(""); }

static inline void bench_speed_fields(double ops, uint64_t elapsed_ns) {
    double seconds = (double)elapsed_ns / 1e9;
    printf(" ops=%.0f seconds=%.6f ops_per_s=%.6g ns_per_op=%.6g", ops, seconds, ops / seconds, seconds * 1e9 / ops);
}

static inline void bench_result(double ops, uint64_t elapsed_ns) {
    bench_open_result();
    bench_speed_fields(ops, elapsed_ns);
    bench_close_result();
}

#endif
