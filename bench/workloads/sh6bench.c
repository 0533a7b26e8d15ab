// SPDX-License-Identifier: MIT
// sh6bench THREADS ROUNDS SEED: batches with a skewed size mix, freed in several orders. Every thread allocates batches
// in which small sizes are the most frequent, frees every other batch forwards, the others backwards, and holds each
// third batch back for a round. Nothing crosses threads.
#include "common.h"

enum { BATCH = 2000, SIZES = 32 };

typedef struct {
    size_t rounds;
    uint64_t seed;
    void **now, **held;
    uint64_t operations;
} worker;

// The size of rank k is 8 (k + 1)^1.5 or so, and comes up about 1 / (k + 1) as often as the first.
static size_t skewed_size(bench_rng *rng) {
    size_t rank = bench_rng_below(rng, SIZES) * (size_t)bench_rng_below(rng, SIZES) / SIZES;
    return 8 + rank * rank * 2 + bench_rng_below(rng, 16);
}

static void allocate(worker *self, bench_rng *rng) {
    for (size_t i = 0; i < BATCH; i++) {
        size_t size = skewed_size(rng);
        self->now[i] = bench_malloc(size);
        bench_touch_ends(self->now[i], size);
    }
    self->operations += BATCH;
}

static void release(void **block, size_t from, size_t step, int backwards) {
    for (size_t i = from; i < BATCH; i += step) {
        size_t at = backwards ? BATCH - 1 - i : i;
        free(block[at]);
        block[at] = NULL;
    }
}

static void hold_back(worker *self) {
    void **swap = self->held;
    self->held = self->now;
    self->now = swap;
}

static void work(void *argument) {
    worker *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    for (size_t r = 0; r < self->rounds; r++) {
        allocate(self, &rng);
        if (r % 3 == 2) {
            hold_back(self);
            release(self->now, 0, 1, 1);
        } else {
            release(self->now, 0, 2, r % 2 == 0);
            release(self->now, 1, 2, r % 2 != 0);
            release(self->now, 0, 1, 0);
        }
    }
    release(self->held, 0, 1, 0);
}

int main(int argc, char **argv) {
    size_t threads = bench_arg(argc, argv, 1, 1);
    size_t rounds = bench_arg(argc, argv, 2, 5000);
    uint64_t seed = bench_arg(argc, argv, 3, 42);
    bench_begin();
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++)
        workers[i] =
            (worker){rounds, seed + i, bench_map(BATCH * sizeof(void *)), bench_map(BATCH * sizeof(void *)), 0};
    uint64_t elapsed = bench_threads(threads, work, workers, sizeof *workers), operations = 0;
    for (size_t i = 0; i < threads; i++)
        operations += workers[i].operations;
    bench_result((double)operations, elapsed);
    return 0;
}
