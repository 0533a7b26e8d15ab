// SPDX-License-Identifier: MIT
// alloc_test THREADS ITERS LIVE SEED: long-lived and short-lived objects together. Every thread replaces random slots
// out of LIVE; slots are picked by a power law (a few die young, most live long), sizes by another (small ones most
// often), and every block is written when it comes and read before it goes.
#include "common.h"

typedef struct {
    void **block;
    uint32_t *size;
    size_t live, iterations;
    uint64_t seed, checksum;
} worker;

static size_t pareto_size(bench_rng *rng) {
    uint32_t draw = bench_rng_next(rng);
    unsigned zeros = draw ? (unsigned)__builtin_clz(draw) : 31; // each further doubling is half as likely
    size_t base = (size_t)16 << (zeros < 9 ? zeros : 9);
    return base + bench_rng_below(rng, (uint32_t)base);
}

static size_t skewed_slot(bench_rng *rng, size_t live) {
    uint64_t a = bench_rng_next(rng), b = bench_rng_next(rng);
    return (size_t)(((a * b) >> 32) * live >> 32);
}

static void replace(worker *self, size_t at, bench_rng *rng) {
    if (self->block[at]) {
        const unsigned char *bytes = self->block[at];
        for (size_t i = 0; i < self->size[at]; i += 64)
            self->checksum += bytes[i];
        free(self->block[at]);
    }
    size_t size = pareto_size(rng);
    self->block[at] = bench_malloc(size);
    self->size[at] = (uint32_t)size;
    memset(self->block[at], (int)(size & 127), size);
}

static void work(void *argument) {
    worker *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    for (size_t i = 0; i < self->iterations; i++)
        replace(self, skewed_slot(&rng, self->live), &rng);
    bench_keep(&self->checksum);
}

int main(int argc, char **argv) {
    size_t threads = bench_arg(argc, argv, 1, 1);
    size_t iterations = bench_arg(argc, argv, 2, 10000000);
    size_t live = bench_arg(argc, argv, 3, 100000);
    uint64_t seed = bench_arg(argc, argv, 4, 42);
    bench_begin();
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++)
        workers[i] = (worker){
            bench_map(live * sizeof(void *)), bench_map(live * sizeof(uint32_t)), live, iterations, seed + i, 0};
    uint64_t elapsed = bench_threads(threads, work, workers, sizeof *workers);
    bench_result((double)(threads * iterations), elapsed);
    return 0;
}
