// SPDX-License-Identifier: MIT
// larson SECONDS MIN MAX CHUNKS ROUNDS SEED THREADS: a server whose threads die young. THREADS lines of work, each with
// an array of CHUNKS blocks of MIN - MAX bytes. A thread replaces CHUNKS x ROUNDS random blocks of its line's array,
// then starts a fresh thread, hands it the array and ends; so most blocks are freed by a thread that did not allocate
// them. SECONDS may be a fraction.
#include "common.h"
#include <stdatomic.h>

typedef struct {
    void **chunk;
    size_t chunks, rounds, low, high;
    bench_rng rng;
    uint64_t replaced;
    _Alignas(64) _Atomic int finished;
} line;

static _Atomic int stop;

static void replace_one(line *self) {
    void **chunk = &self->chunk[bench_rng_below(&self->rng, (uint32_t)self->chunks)];
    free(*chunk);
    *chunk = bench_malloc(bench_rng_range(&self->rng, self->low, self->high));
    bench_touch_first(*chunk);
    self->replaced++;
}

static void *generation(void *argument);

static void spawn(line *self) {
    pthread_t id;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&id, &attributes, generation, self) != 0)
        bench_fail("pthread_create failed");
    pthread_attr_destroy(&attributes);
}

static void *generation(void *argument) {
    line *self = argument;
    for (size_t round = 0; round < self->rounds; round++) {
        for (size_t i = 0; i < self->chunks; i++)
            replace_one(self);
        if (atomic_load_explicit(&stop, memory_order_relaxed)) {
            atomic_store(&self->finished, 1); // pairs with the acquire in wait_for_all
            return NULL;
        }
    }
    spawn(self);
    return NULL;
}

static void fill(line *self) {
    for (size_t i = 0; i < self->chunks; i++) {
        self->chunk[i] = bench_malloc(bench_rng_range(&self->rng, self->low, self->high));
        bench_touch_first(self->chunk[i]);
    }
}

static uint64_t wait_for_all(line *lines, size_t count) {
    uint64_t replaced = 0;
    for (size_t i = 0; i < count; i++) {
        while (!atomic_load(&lines[i].finished))
            bench_sleep_ms(1);
        replaced += lines[i].replaced;
    }
    return replaced;
}

int main(int argc, char **argv) {
    unsigned run_ms = bench_arg_ms(argc, argv, 1, 5);
    line model = {.low = bench_arg(argc, argv, 2, 8), .high = bench_arg(argc, argv, 3, 1000)};
    model.chunks = bench_arg(argc, argv, 4, 10000);
    model.rounds = bench_arg(argc, argv, 5, 1);
    uint64_t seed = bench_arg(argc, argv, 6, 12345);
    size_t threads = bench_arg(argc, argv, 7, 2);
    bench_begin();
    line *lines = bench_map(threads * sizeof *lines);
    for (size_t i = 0; i < threads; i++) {
        lines[i] = model;
        lines[i].rng = bench_rng_make(seed + i);
        lines[i].chunk = bench_map(model.chunks * sizeof(void *));
        fill(&lines[i]);
    }
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < threads; i++)
        spawn(&lines[i]);
    bench_sleep_ms(run_ms);
    atomic_store(&stop, 1);
    uint64_t replaced = wait_for_all(lines, threads);
    bench_result((double)replaced, bench_now_ns() - begin);
    return 0;
}
