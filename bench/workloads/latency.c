// SPDX-License-Identifier: MIT
// latency OPS LIVE MODE SEED: how long single calls take. LIVE blocks of mixed sizes (16 bytes to 128 KiB, mostly
// small); each operation frees a random one and allocates another, and every malloc and every free is timed by itself.
// "warm" first turns the whole live set over four times; "cold" times from the first call on. timer_ns is what timing
// nothing shows.
#include "common.h"

enum { BUCKETS = 1 << 20 }; // one per nanosecond, the last one for everything above a millisecond

typedef struct {
    uint32_t *bucket;
    uint64_t count;
    double max_ns;
} histogram;

#if defined(__x86_64__)
static uint64_t ticks(void) {
    uint32_t low, high;
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high) : : "rcx", "memory");
    return ((uint64_t)high << 32) | low;
}
#else
static uint64_t ticks(void) { return bench_now_ns(); }
#endif

static double ns_per_tick(void) {
    uint64_t ns = bench_now_ns(), t = ticks();
    while (bench_now_ns() - ns < 50000000) {
    }
    uint64_t elapsed = ticks() - t;
    return (double)(bench_now_ns() - ns) / (double)elapsed;
}

static void record(histogram *h, uint64_t elapsed_ticks, double scale) {
    double ns = (double)elapsed_ticks * scale;
    size_t at = ns < BUCKETS - 1 ? (size_t)ns : BUCKETS - 1;
    h->bucket[at]++;
    h->count++;
    if (ns > h->max_ns)
        h->max_ns = ns;
}

static double percentile(const histogram *h, double share) {
    uint64_t rank = (uint64_t)((double)h->count * share), seen = 0;
    for (size_t i = 0; i < BUCKETS - 1; i++) {
        seen += h->bucket[i];
        if (seen > rank)
            return (double)i;
    }
    return h->max_ns;
}

static size_t mixed_size(bench_rng *rng) {
    uint32_t kind = bench_rng_below(rng, 100);
    if (kind < 70)
        return bench_rng_range(rng, 16, 256);
    if (kind < 90)
        return bench_rng_range(rng, 256, 2048);
    return kind < 98 ? bench_rng_range(rng, 2 * KIB, 16 * KIB) : bench_rng_range(rng, 16 * KIB, 128 * KIB);
}

static void turn_over(void **block, size_t live, size_t times, bench_rng *rng) {
    for (size_t i = 0; i < live * times; i++) {
        void **at = &block[bench_rng_below(rng, (uint32_t)live)];
        size_t size = mixed_size(rng);
        free(*at);
        *at = bench_malloc(size);
        memset(*at, 1, size);
    }
}

static void timed_replace(void **at, size_t size, histogram *h, double scale) {
    uint64_t start = ticks();
    free(*at);
    uint64_t freed = ticks();
    *at = malloc(size);
    uint64_t done = ticks();
    if (!*at)
        bench_fail("malloc returned NULL");
    bench_touch_ends(*at, size);
    record(h, freed - start, scale);
    record(h, done - freed, scale);
}

static double timer_floor(double scale) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 10000; i++) {
        uint64_t a = ticks(), b = ticks();
        least = b - a < least ? b - a : least;
    }
    return (double)least * scale;
}

static void report(const histogram *h, double scale) {
    bench_open_result();
    bench_field("ops", (double)h->count);
    bench_field("p50_ns", percentile(h, 0.5));
    bench_field("p99_ns", percentile(h, 0.99));
    bench_field("p999_ns", percentile(h, 0.999));
    bench_field("p9999_ns", percentile(h, 0.9999));
    bench_field("max_ns", h->max_ns);
    bench_field("timer_ns", timer_floor(scale));
    bench_close_result();
}

int main(int argc, char **argv) {
    size_t operations = bench_arg(argc, argv, 1, 1000000);
    size_t live = bench_arg(argc, argv, 2, 20000);
    int cold = strcmp(bench_word(argc, argv, 3, "warm"), "cold") == 0;
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 4, 42));
    double scale = ns_per_tick();
    bench_begin();
    void **block = bench_map(live * sizeof *block);
    histogram h = {.bucket = bench_map(BUCKETS * sizeof(uint32_t))};
    if (!cold)
        turn_over(block, live, 4, &rng);
    for (size_t i = 0; i < operations; i++)
        timed_replace(&block[bench_rng_below(&rng, (uint32_t)live)], mixed_size(&rng), &h, scale);
    report(&h, scale);
    return 0;
}
