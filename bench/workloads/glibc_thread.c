// SPDX-License-Identifier: MIT
// glibc_thread THREADS ITERS SEED: the shape of glibc's threaded benchmark. Every thread keeps 1,024 blocks and
// replaces random ones; sizes run from 4 to 32,768 bytes with a likelihood that falls as the inverse square of the
// size.
#include "common.h"

enum { WORKING_SET = 1024, SIZE_DRAWS = 4096, SMALLEST = 4, LARGEST = 32768 };

typedef struct {
    size_t iterations;
    uint64_t seed;
    void *block[WORKING_SET];
} worker;

static uint32_t sizes[SIZE_DRAWS];

// Inverse transform of the density ~ 1 / x^2 between the bounds.
static void draw_sizes(bench_rng *rng) {
    for (size_t i = 0; i < SIZE_DRAWS; i++) {
        double u = bench_rng_next(rng) / 4294967296.0;
        sizes[i] = (uint32_t)(1.0 / (u / LARGEST + (1.0 - u) / SMALLEST));
    }
}

static void work(void *argument) {
    worker *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    for (size_t i = 0; i < self->iterations; i++) {
        uint32_t draw = bench_rng_next(&rng);
        void **block = &self->block[draw % WORKING_SET];
        free(*block);
        *block = bench_malloc(sizes[(draw >> 12) % SIZE_DRAWS]);
        bench_touch_first(*block);
    }
}

int main(int argc, char **argv) {
    size_t threads = bench_arg(argc, argv, 1, 2);
    size_t iterations = bench_arg(argc, argv, 2, 10000000);
    uint64_t seed = bench_arg(argc, argv, 3, 42);
    bench_begin();
    bench_rng rng = bench_rng_make(seed);
    draw_sizes(&rng);
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++) {
        workers[i].iterations = iterations;
        workers[i].seed = seed + 1 + i;
    }
    uint64_t elapsed = bench_threads(threads, work, workers, sizeof *workers);
    bench_result((double)(threads * iterations), elapsed);
    return 0;
}
