// SPDX-License-Identifier: MIT
// mid_large_mt THREADS ITERS WS SEED: every thread has WS slots of its own. Each iteration picks a random slot: a full
// one is freed, an empty one gets 8 - 34 KiB, of which the first and the last byte are touched.
#include "common.h"

typedef struct {
    void **slot;
    size_t slots;
    size_t iterations;
    uint64_t seed;
} worker;

static void churn(void *argument) {
    worker *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    for (size_t i = 0; i < self->iterations; i++) {
        void **slot = &self->slot[bench_rng_below(&rng, (uint32_t)self->slots)];
        if (*slot) {
            free(*slot);
            *slot = NULL;
        } else {
            size_t size = bench_rng_range(&rng, 8 * KIB, 34 * KIB);
            *slot = bench_malloc(size);
            bench_touch_ends(*slot, size);
        }
    }
}

int main(int argc, char **argv) {
    size_t threads = bench_arg(argc, argv, 1, 2);
    size_t iterations = bench_arg(argc, argv, 2, 200000);
    size_t slots = bench_arg(argc, argv, 3, 2048);
    uint64_t seed = bench_arg(argc, argv, 4, 42);
    bench_begin();
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++)
        workers[i] = (worker){bench_map(slots * sizeof(void *)), slots, iterations, seed + i};
    uint64_t elapsed = bench_threads(threads, churn, workers, sizeof *workers);
    bench_result((double)(threads * iterations), elapsed);
    return 0;
}
