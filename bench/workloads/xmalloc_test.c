// SPDX-License-Identifier: MIT
// xmalloc_test WORKERS SECONDS SEED: half of the threads only allocate, the other half only free. Batches of 256 blocks
// of 16 - 1,024 bytes travel through one shared stack behind a lock, bounded to 256 batches. One operation is one
// block.
#include "common.h"
#include <stdatomic.h>

enum { BATCH = 256, DEPTH = 256 };

typedef struct {
    void *block[BATCH];
} batch;

static struct {
    pthread_mutex_t lock;
    size_t count;
    batch *item[DEPTH];
} stack = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic int stop;

typedef struct {
    uint64_t seed;
    uint64_t freed;
    int allocates;
} worker;

static int push(batch *b) {
    pthread_mutex_lock(&stack.lock);
    int fits = stack.count < DEPTH;
    if (fits)
        stack.item[stack.count++] = b;
    pthread_mutex_unlock(&stack.lock);
    return fits;
}

static batch *pop(void) {
    pthread_mutex_lock(&stack.lock);
    batch *b = stack.count ? stack.item[--stack.count] : NULL;
    pthread_mutex_unlock(&stack.lock);
    return b;
}

static batch *make_batch(bench_rng *rng) {
    batch *b = bench_malloc(sizeof *b);
    for (size_t i = 0; i < BATCH; i++) {
        b->block[i] = bench_malloc(bench_rng_range(rng, 16, 1024));
        bench_touch_first(b->block[i]);
    }
    return b;
}

static void allocate_until_stop(worker *self) {
    bench_rng rng = bench_rng_make(self->seed);
    unsigned spins = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        batch *b = make_batch(&rng);
        while (!push(b)) {
            if (atomic_load_explicit(&stop, memory_order_relaxed))
                return;
            bench_relax(&spins);
        }
    }
}

static void free_until_stop(worker *self) {
    unsigned spins = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        batch *b = pop();
        if (!b) {
            bench_relax(&spins);
            continue;
        }
        for (size_t i = 0; i < BATCH; i++)
            free(b->block[i]);
        free(b);
        self->freed += BATCH;
    }
}

static void *run(void *argument) {
    worker *self = argument;
    if (self->allocates)
        allocate_until_stop(self);
    else
        free_until_stop(self);
    return NULL;
}

int main(int argc, char **argv) {
    size_t count = bench_arg(argc, argv, 1, 2) / 2 * 2;
    unsigned run_ms = bench_arg_ms(argc, argv, 2, 2);
    uint64_t seed = bench_arg(argc, argv, 3, 42);
    if (count < 2)
        bench_fail("xmalloc_test needs at least 2 workers");
    bench_begin();
    worker *workers = bench_map(count * sizeof *workers);
    pthread_t *ids = bench_map(count * sizeof *ids);
    uint64_t begin = bench_now_ns(), freed = 0;
    for (size_t i = 0; i < count; i++) {
        workers[i] = (worker){.seed = seed + i, .allocates = i % 2 == 0};
        if (pthread_create(&ids[i], NULL, run, &workers[i]) != 0)
            bench_fail("pthread_create failed");
    }
    bench_sleep_ms(run_ms);
    atomic_store(&stop, 1);
    for (size_t i = 0; i < count; i++) {
        pthread_join(ids[i], NULL);
        freed += workers[i].freed;
    }
    bench_result((double)freed, bench_now_ns() - begin);
    return 0;
}
