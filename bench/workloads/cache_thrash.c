// SPDX-License-Identifier: MIT
// cache_thrash THREADS ITERS SIZE REPS: active false sharing. Every thread ITERS / THREADS times allocates a block of
// SIZE, writes it REPS times and frees it. An allocator that splits one cache line between threads makes them fight
// over it.
#include "common.h"

typedef struct {
    size_t iterations, size, repetitions;
} worker;

static void work(void *argument) {
    worker *self = argument;
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
    for (size_t i = 0; i < threads; i++)
        workers[i] = (worker){iterations / threads, size, repetitions};
    uint64_t elapsed = bench_threads(threads, work, workers, sizeof *workers);
    bench_result((double)(iterations * repetitions * size), elapsed);
    return 0;
}
