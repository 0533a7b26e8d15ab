// SPDX-License-Identifier: MIT
// producer_consumer PRODUCERS CONSUMERS ITEMS MIN MAX SEED: producers allocate ITEMS blocks each and pass them through
// rings of 4,096 pointers to consumers, which only free. There is a ring per pair; the pairs are dealt round when the
// counts differ. One operation is one block: a malloc here and a free there.
#include "common.h"
#include <stdatomic.h>

enum { RING = 4096, BATCH = 64 };

typedef struct {
    _Alignas(64) _Atomic size_t head; // written by the producer
    _Alignas(64) _Atomic size_t tail; // written by the consumer
    _Alignas(64) void *item[RING];
} ring;

typedef struct {
    ring *rings;
    size_t first, step, count; // rings first, first + step, ... below count
    size_t items, low, high;   // items per ring
    uint64_t seed;
    int produces;
} worker;

static void produce_batch(ring *to, size_t batch, bench_rng *rng, const worker *self) {
    size_t head = atomic_load_explicit(&to->head, memory_order_relaxed);
    unsigned spins = 0;
    while (head + batch - atomic_load_explicit(&to->tail, memory_order_acquire) > RING) // pairs with consume_batch
        bench_relax(&spins);
    for (size_t i = 0; i < batch; i++) {
        size_t size = bench_rng_range(rng, self->low, self->high);
        void *block = bench_malloc(size);
        bench_touch_ends(block, size);
        to->item[(head + i) % RING] = block;
    }
    atomic_store_explicit(&to->head, head + batch, memory_order_release); // pairs with the acquire in consume_batch
}

static void consume_batch(ring *from, size_t batch) {
    size_t tail = atomic_load_explicit(&from->tail, memory_order_relaxed);
    unsigned spins = 0;
    while (atomic_load_explicit(&from->head, memory_order_acquire) - tail < batch)
        bench_relax(&spins);
    for (size_t i = 0; i < batch; i++)
        free(from->item[(tail + i) % RING]);
    atomic_store_explicit(&from->tail, tail + batch, memory_order_release); // pairs with the acquire in produce_batch
}

static void work(void *argument) {
    worker *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    for (size_t done = 0; done < self->items; done += BATCH) {
        size_t batch = self->items - done < BATCH ? self->items - done : BATCH;
        for (size_t r = self->first; r < self->count; r += self->step) {
            if (self->produces)
                produce_batch(&self->rings[r], batch, &rng, self);
            else
                consume_batch(&self->rings[r], batch);
        }
    }
}

int main(int argc, char **argv) {
    size_t producers = bench_arg(argc, argv, 1, 1);
    size_t consumers = bench_arg(argc, argv, 2, 1);
    size_t items = bench_arg(argc, argv, 3, 5000000);
    size_t low = bench_arg(argc, argv, 4, 16);
    size_t high = bench_arg(argc, argv, 5, 256);
    uint64_t seed = bench_arg(argc, argv, 6, 42);
    bench_begin();
    size_t pairs = producers > consumers ? producers : consumers;
    size_t per_ring = items * producers / pairs;
    ring *rings = bench_map(pairs * sizeof *rings);
    worker *workers = bench_map((producers + consumers) * sizeof *workers);
    for (size_t i = 0; i < producers + consumers; i++) {
        int produces = i < producers;
        size_t first = produces ? i : i - producers;
        workers[i] =
            (worker){rings, first, produces ? producers : consumers, pairs, per_ring, low, high, seed + i, produces};
    }
    uint64_t elapsed = bench_threads(producers + consumers, work, workers, sizeof *workers);
    bench_result((double)(per_ring * pairs), elapsed);
    return 0;
}
