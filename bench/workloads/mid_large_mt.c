// SPDX-License-Identifier: MIT
// mid_large_mt THREADS ITERS WS SEED LIMIT_MS: every thread has WS slots of its own. Each iteration picks a random
// slot: a full one is freed, an empty one gets 8 - 34 KiB, of which the first and the last byte are touched. A thread
// ends after ITERS, or when LIMIT_MS have passed.
#include "common.h"

enum { PART = 5000 }; // iterations between two looks at the clock

typedef struct {
    void **slot;
    size_t slots;
    size_t iterations;
    size_t limit_ms;
    uint64_t seed;
    size_t done;
} worker;

static void churn(worker *self, size_t iterations, bench_rng *rng) {
    for (size_t i = 0; i < iterations; i++) {
        void **slot = &self->slot[bench_rng_below(rng, (uint32_t)self->slots)];
        if (*slot) {
            free(*slot);
            *slot = NULL;
        } else {
            size_t size = bench_rng_range(rng, 8 * KIB, 34 * KIB);
            *slot = bench_malloc(size);
            bench_touch_ends(*slot, size);
        }
    }
}

static void work(void *argument) {
    worker *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    uint64_t begin = bench_now_ns();
    while (self->done < self->iterations && !bench_is_over(begin, self->limit_ms)) {
        size_t left = self->iterations - self->done, part = left < PART ? left : PART;
        churn(self, part, &rng);
        self->done += part;
    }
}

int main(int argc, char **argv) {
    size_t threads = bench_arg(argc, argv, 1, 2);
    size_t iterations = bench_arg(argc, argv, 2, 200000);
    size_t slots = bench_arg(argc, argv, 3, 2048);
    uint64_t seed = bench_arg(argc, argv, 4, 42);
    size_t limit_ms = bench_arg(argc, argv, 5, 0), done = 0;
    bench_begin();
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++)
        workers[i] = (worker){bench_map(slots * sizeof(void *)), slots, iterations, limit_ms, seed + i, 0};
    uint64_t elapsed = bench_threads(threads, work, workers, sizeof *workers);
    for (size_t i = 0; i < threads; i++)
        done += workers[i].done;
    bench_result((double)done, elapsed);
    return 0;
}
