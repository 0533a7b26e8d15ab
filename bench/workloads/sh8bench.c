// SPDX-License-Identifier: MIT
// sh8bench THREADS ROUNDS SEED: as sh6bench, but blocks change hands. Every thread puts each finished batch into a
// shared table and takes out whatever batch lay there, so it frees mostly what others allocated; sizes reach 4 KiB.
#include "common.h"
#include <stdatomic.h>

enum { BATCH = 500, TABLE = 16 };

typedef struct {
    void *block[BATCH];
} batch;

static _Atomic(batch *) table[TABLE];

typedef struct {
    size_t rounds;
    uint64_t seed;
} worker;

static size_t skewed_size(bench_rng *rng) {
    uint32_t kind = bench_rng_below(rng, 100);
    if (kind < 80)
        return bench_rng_range(rng, 16, 128);
    return kind < 97 ? bench_rng_range(rng, 128, 1024) : bench_rng_range(rng, 1024, 4096);
}

static batch *make(bench_rng *rng) {
    batch *b = bench_malloc(sizeof *b);
    for (size_t i = 0; i < BATCH; i++) {
        size_t size = skewed_size(rng);
        b->block[i] = bench_malloc(size);
        bench_touch_ends(b->block[i], size);
    }
    return b;
}

static void drop(batch *b, int backwards) {
    if (!b)
        return;
    for (size_t i = 0; i < BATCH; i++)
        free(b->block[backwards ? BATCH - 1 - i : i]);
    free(b);
}

static void work(void *argument) {
    worker *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    for (size_t r = 0; r < self->rounds; r++) {
        batch *mine = make(&rng);
        drop(atomic_exchange(&table[bench_rng_below(&rng, TABLE)], mine), r % 2 == 0);
    }
}

int main(int argc, char **argv) {
    size_t threads = bench_arg(argc, argv, 1, 2);
    size_t rounds = bench_arg(argc, argv, 2, 10000);
    uint64_t seed = bench_arg(argc, argv, 3, 42);
    bench_begin();
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++)
        workers[i] = (worker){rounds, seed + i};
    uint64_t elapsed = bench_threads(threads, work, workers, sizeof *workers);
    bench_result((double)(threads * rounds * BATCH), elapsed);
    return 0;
}
