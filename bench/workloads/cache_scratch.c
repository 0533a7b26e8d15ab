// SPDX-License-Identifier: MIT
// cache_scratch THREADS ITERS SIZE REPS: passive false sharing. The main thread allocates one small block per thread,
// side by side, and gives each away. Every thread frees its gift, then ITERS / THREADS times allocates a block of SIZE,
// writes it REPS times and frees it. If the gifts' cache lines come back to several threads, writing is many times
// slower.
#include "common.h"

typedef struct {
    char *gift;
    size_t iterations, size, repetitions;
} worker;

static void work(void *argument) {
    worker *self = argument;
    free(self->gift);
    for (size_t i = 0; i < self->iterations; i++) {
        char *block = bench_malloc(self->size);
        bench_scribble(block, self->size, self->repetitions);
        free(block);
    }
}

int main(int argc, char **argv) {
    size_t threads = bench_arg(argc, argv, 1, 2);
    size_t iterations = bench_arg(argc, argv, 2, 1000);
    size_t size = bench_arg(argc, argv, 3, 8);
    size_t repetitions = bench_arg(argc, argv, 4, 100000);
    bench_begin();
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (worker){bench_malloc(size), iterations / threads, size, repetitions};
        memset(workers[i].gift, 1, size);
    }
    uint64_t elapsed = bench_threads(threads, work, workers, sizeof *workers);
    bench_result((double)(iterations * repetitions * size), elapsed);
    return 0;
}
