// SPDX-License-Identifier: MIT
// live_set HOW THREADS OPERATIONS LIVE MIN MAX TOUCH SEED LIMIT_MS: blocks of MIN to MAX bytes, any length as often as
// another. HOW is what a thread does with its LIVE blocks:
//   own       replaces one of them by a new one, drawn at random;
//   exchange  the same, but the blocks of all threads lie in one table, so that most are freed by another thread;
//   batch     takes all of them, then frees them in the order in which they came.
// TOUCH is the distance of the bytes that are written in each block: 0 is the first and the last one only, 1 each byte.
// A thread ends after OPERATIONS blocks, or when LIMIT_MS have passed.
#include "common.h"
#include <stdatomic.h>

enum { PART = 500 }; // blocks between two looks at the clock

typedef struct worker worker;

struct worker {
    void (*part)(worker *self, size_t count);
    _Atomic(void *) *slot; // the thread's own, or all threads'
    size_t slots, low, high, stride, operations, limit_ms, done;
    bench_rng rng;
};

static void *new_block(worker *self) {
    size_t size = bench_rng_range(&self->rng, self->low, self->high);
    char *block = bench_malloc(size);
    bench_touch_ends(block, size);
    if (self->stride == 1)
        memset(block, 1, size);
    else if (self->stride > 1)
        for (size_t at = 0; at < size; at += self->stride)
            ((volatile char *)block)[at] = 1;
    return block;
}

// Acquire pairs with the release of the thread that put the block there: what it wrote comes before the free.
static void replace(worker *self, size_t count) {
    for (size_t i = 0; i < count; i++) {
        _Atomic(void *) *slot = &self->slot[bench_rng_below(&self->rng, (uint32_t)self->slots)];
        free(atomic_exchange_explicit(slot, NULL, memory_order_acquire));
        free(atomic_exchange_explicit(slot, new_block(self), memory_order_acq_rel));
    }
    self->done += count;
}

static void take_and_free(worker *self, size_t count) {
    (void)count;
    for (size_t i = 0; i < self->slots; i++)
        self->slot[i] = new_block(self);
    for (size_t i = 0; i < self->slots; i++)
        free(self->slot[i]);
    self->done += self->slots;
}

static void work(void *argument) {
    worker *self = argument;
    uint64_t begin = bench_now_ns();
    while (self->done < self->operations && !bench_is_over(begin, self->limit_ms)) {
        size_t left = self->operations - self->done;
        self->part(self, left < PART ? left : PART);
    }
}

static size_t total(const worker *workers, size_t threads) {
    size_t done = 0;
    for (size_t i = 0; i < threads; i++)
        done += workers[i].done;
    return done;
}

int main(int argc, char **argv) {
    const char *how = bench_word(argc, argv, 1, "own");
    int shared = strcmp(how, "exchange") == 0, batch = strcmp(how, "batch") == 0;
    size_t threads = bench_arg(argc, argv, 2, 2);
    size_t live = bench_arg(argc, argv, 4, 16);
    worker first = {
        .part = batch ? take_and_free : replace,
        .operations = bench_arg(argc, argv, 3, 100000),
        .low = bench_arg(argc, argv, 5, 18 * KIB),
        .high = bench_arg(argc, argv, 6, 250 * KIB),
        .stride = bench_arg(argc, argv, 7, 4096),
        .limit_ms = bench_arg(argc, argv, 9, 0),
        .slots = shared ? live * threads : live,
    };
    uint64_t seed = bench_arg(argc, argv, 8, 42);
    if (!(shared || batch || strcmp(how, "own") == 0) || live == 0 || first.low == 0 || first.low > first.high) {
        fprintf(stderr, "%s: own, exchange or batch; LIVE and MIN from 1 on, MIN not above MAX\n", argv[0]);
        return 2;
    }
    bench_begin();
    worker *workers = bench_map(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++) {
        workers[i] = first;
        workers[i].rng = bench_rng_make(seed + i);
        workers[i].slot = shared && i > 0 ? workers[0].slot : bench_map(first.slots * sizeof(void *));
    }
    uint64_t elapsed = bench_threads(threads, work, workers, sizeof *workers);
    bench_result((double)total(workers, threads), elapsed);
    return 0;
}
