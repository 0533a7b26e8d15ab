// SPDX-License-Identifier: MIT
// mstress THREADS SCALE ROUNDS SEED: a server under stress. In every round fresh threads allocate arrays of objects
// whose sizes double ever more rarely, keep a tenth, free at random, and swap objects through a table that all threads
// share.
#include "common.h"
#include <stdatomic.h>

enum { SHARED = 1000 };

static _Atomic(void *) shared[SHARED];

typedef struct {
    size_t scale;
    uint64_t seed;
    uint64_t operations;
    void **kept;
    void **brief;
} worker;

static size_t draw_items(bench_rng *rng) {
    size_t items = 1;
    while (items < 64 && bench_rng_below(rng, 100) < 50)
        items *= 2;
    return bench_rng_below(rng, 10000) == 0 ? items * 100 : items;
}

static void *make(bench_rng *rng) {
    size_t words = draw_items(rng) * 2;
    uint64_t *object = bench_malloc(words * sizeof *object);
    for (size_t i = 0; i < words; i++)
        object[i] = words - i;
    return object;
}

static void swap_shared(bench_rng *rng, void **slot) {
    void *other = atomic_exchange(&shared[bench_rng_below(rng, SHARED)], *slot); // hands the object over, both ways
    *slot = other;
}

static void step(worker *self, size_t at, bench_rng *rng) {
    if (bench_rng_below(rng, 10) == 0)
        self->kept[at] = make(rng);
    else
        self->brief[at] = make(rng);
    void **victim = &self->brief[bench_rng_below(rng, (uint32_t)self->scale)];
    if (bench_rng_below(rng, 4) == 0) {
        swap_shared(rng, victim);
    } else {
        free(*victim);
        *victim = NULL;
    }
    self->operations++;
}

static void work(void *argument) {
    worker *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    for (size_t i = 0; i < self->scale; i++) {
        free(self->brief[i]);
        self->brief[i] = NULL;
        step(self, i, &rng);
    }
    for (size_t i = 0; i < self->scale; i++) {
        free(self->brief[i]);
        free(self->kept[i]);
        self->brief[i] = self->kept[i] = NULL;
    }
}

int main(int argc, char **argv) {
    size_t threads = bench_arg(argc, argv, 1, 2);
    size_t scale = bench_arg(argc, argv, 2, 50000);
    size_t rounds = bench_arg(argc, argv, 3, 40);
    uint64_t seed = bench_arg(argc, argv, 4, 42);
    bench_begin();
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++)
        workers[i] = (worker){scale, 0, 0, bench_map(scale * sizeof(void *)), bench_map(scale * sizeof(void *))};
    uint64_t elapsed = 0, operations = 0;
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < threads; i++)
            workers[i].seed = seed + r * threads + i;
        elapsed += bench_threads(threads, work, workers, sizeof *workers);
        for (size_t s = 0; s < SHARED / 2; s++)
            free(atomic_exchange(&shared[s], NULL));
    }
    for (size_t i = 0; i < threads; i++)
        operations += workers[i].operations;
    bench_result((double)operations, elapsed);
    return 0;
}
