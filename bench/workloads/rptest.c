// SPDX-License-Identifier: MIT
// rptest THREADS LOOPS BLOCKS MIN MAX SEED LIMIT_MS: allocate, free some, hand the rest to the neighbour. Every thread
// fills a table of BLOCKS with sizes that are MIN most often and fall off linearly towards MAX, frees a random run of
// them, and passes each eighth block on; whatever the other neighbour passed is freed on the way. No loop begins when
// LIMIT_MS have passed.
#include "common.h"
#include <stdatomic.h>

enum { MAILBOX = 4096, SENT_ONE_IN = 8 };

typedef struct {
    _Alignas(64) _Atomic(void *) slot[MAILBOX];
} mailbox;

typedef struct {
    size_t index, threads, loops, blocks, low, high, limit_ms;
    uint64_t seed, operations;
    mailbox *boxes;
    void **block;
} worker;

static size_t linear_size(bench_rng *rng, size_t low, size_t high) {
    size_t a = bench_rng_range(rng, low, high), b = bench_rng_range(rng, low, high);
    return a < b ? a : b;
}

static void send(worker *self, void *block, bench_rng *rng) {
    mailbox *to = &self->boxes[(self->index + 1) % self->threads];
    free(atomic_exchange(&to->slot[bench_rng_below(rng, MAILBOX)], block)); // the exchange hands the block over
}

static void receive(worker *self, size_t count, bench_rng *rng) {
    mailbox *mine = &self->boxes[self->index];
    for (size_t i = 0; i < count; i++)
        free(atomic_exchange(&mine->slot[bench_rng_below(rng, MAILBOX)], NULL));
}

static void fill(worker *self, bench_rng *rng) {
    for (size_t i = 0; i < self->blocks; i++) {
        if (self->block[i])
            continue;
        size_t size = linear_size(rng, self->low, self->high);
        self->block[i] = bench_malloc(size);
        bench_touch_ends(self->block[i], size);
        self->operations++;
    }
}

static void release_run(worker *self, bench_rng *rng) {
    size_t from = bench_rng_below(rng, (uint32_t)self->blocks);
    size_t length = self->blocks / 4 + bench_rng_below(rng, (uint32_t)(self->blocks / 2));
    for (size_t i = 0; i < length; i++) {
        void **block = &self->block[(from + i) % self->blocks];
        if (i % SENT_ONE_IN == 0 && *block)
            send(self, *block, rng);
        else
            free(*block);
        *block = NULL;
    }
}

static void work(void *argument) {
    worker *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    uint64_t begin = bench_now_ns();
    for (size_t l = 0; l < self->loops && !bench_is_over(begin, self->limit_ms); l++) {
        fill(self, &rng);
        release_run(self, &rng);
        receive(self, self->blocks / SENT_ONE_IN / 2, &rng);
    }
}

int main(int argc, char **argv) {
    size_t threads = bench_arg(argc, argv, 1, 2);
    worker model = {
        .threads = threads, .loops = bench_arg(argc, argv, 2, 1000), .blocks = bench_arg(argc, argv, 3, 5000)};
    model.low = bench_arg(argc, argv, 4, 16);
    model.high = bench_arg(argc, argv, 5, 8000);
    uint64_t seed = bench_arg(argc, argv, 6, 42);
    model.limit_ms = bench_arg(argc, argv, 7, 0);
    bench_begin();
    model.boxes = bench_map(threads * sizeof *model.boxes);
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++) {
        workers[i] = model;
        workers[i].index = i;
        workers[i].seed = seed + i;
        workers[i].block = bench_map(model.blocks * sizeof(void *));
    }
    uint64_t elapsed = bench_threads(threads, work, workers, sizeof *workers), operations = 0;
    for (size_t i = 0; i < threads; i++)
        operations += workers[i].operations;
    bench_result((double)operations, elapsed);
    return 0;
}
