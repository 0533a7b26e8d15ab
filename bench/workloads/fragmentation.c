// SPDX-License-Identifier: MIT
// fragmentation LIVE_MIB PHASES SEED: LIVE_MIB stay allocated while the mix of sizes shifts from phase to phase. In
// every phase random blocks are freed and others of the new mix take their place until the whole live set has turned
// over once. Reports resident memory over live bytes: mean and worst of the phases after the first, and the drift from
// the second phase to the last. One operation is one block replaced.
#include "common.h"

typedef struct {
    size_t low, high;
} mix;

static const mix MIXES[] = {{16, 128}, {512, 1500},   {64, 256},   {2048, 8192},
                            {24, 64},  {9000, 40000}, {128, 1024}, {16, 4096}};

typedef struct {
    void **block;
    uint32_t *size;
    size_t count, capacity;
    size_t live;
} heap;

static void add(heap *h, size_t size) {
    if (h->count == h->capacity)
        bench_fail("fragmentation: table is full");
    h->block[h->count] = bench_malloc(size);
    memset(h->block[h->count], 7, size);
    h->size[h->count++] = (uint32_t)size;
    h->live += size;
}

static size_t drop_random(heap *h, bench_rng *rng) {
    size_t at = bench_rng_below(rng, (uint32_t)h->count);
    size_t size = h->size[at];
    free(h->block[at]);
    h->count--;
    h->block[at] = h->block[h->count];
    h->size[at] = h->size[h->count];
    h->live -= size;
    return size;
}

static size_t run_phase(heap *h, mix m, size_t target, bench_rng *rng) {
    size_t turned = 0, operations = 0;
    while (turned < target) {
        while (h->live < target)
            add(h, bench_rng_range(rng, m.low, m.high)), operations++;
        while (h->live > target - target / 64 && h->count)
            turned += drop_random(h, rng);
    }
    while (h->live < target)
        add(h, bench_rng_range(rng, m.low, m.high)), operations++;
    return operations;
}

typedef struct {
    double second, last, worst, sum;
} ratios;

static void note(ratios *r, size_t phase, double ratio) {
    if (phase == 0)
        return;
    if (phase == 1)
        r->second = ratio;
    r->last = ratio;
    r->sum += ratio;
    if (ratio > r->worst)
        r->worst = ratio;
    fprintf(stderr, "phase %zu: rss / live = %.3f\n", phase, ratio);
}

static void report(const ratios *r, size_t phases, size_t operations, uint64_t elapsed) {
    bench_open_result();
    bench_speed_fields((double)operations, elapsed);
    bench_field("ratio_mean", r->sum / (double)(phases - 1));
    bench_field("ratio_max", r->worst);
    bench_field("drift", r->last - r->second);
    bench_close_result();
}

int main(int argc, char **argv) {
    size_t target = bench_arg(argc, argv, 1, 256) * MIB;
    size_t phases = bench_arg(argc, argv, 2, 9);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    if (phases < 2)
        bench_fail("fragmentation needs at least 2 phases");
    bench_begin();
    heap h = {.capacity = target / 20};
    h.block = bench_map(h.capacity * sizeof *h.block);
    h.size = bench_map(h.capacity * sizeof *h.size);
    size_t base = bench_rss_kib();
    ratios r = {0};
    size_t operations = 0;
    uint64_t elapsed = 0;
    for (size_t phase = 0; phase < phases; phase++) {
        uint64_t begin = bench_now_ns();
        operations += run_phase(&h, MIXES[phase % (sizeof MIXES / sizeof *MIXES)], target, &rng);
        elapsed += bench_now_ns() - begin;
        note(&r, phase, (double)(bench_rss_kib() - base) * 1024 / (double)h.live);
    }
    report(&r, phases, operations, elapsed);
    return 0;
}
