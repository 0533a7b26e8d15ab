// SPDX-License-Identifier: MIT
// phase_change PHASES OPS SEED: a load that keeps changing its mind. It alternates between single pairs of small
// blocks, large batches, and a random working set of a few KiB each; whatever an allocator has learned is wrong in the
// next phase. One operation is a malloc and its free.
#include "common.h"

enum { BATCH = 8192, SET = 1024 };

static void pairs(size_t operations, bench_rng *rng) {
    for (size_t i = 0; i < operations; i++) {
        void *block = bench_malloc(bench_rng_range(rng, 16, 256));
        bench_touch_first(block);
        free(block);
    }
}

static void batches(size_t operations, void **block, bench_rng *rng) {
    for (size_t done = 0; done < operations; done += BATCH) {
        for (size_t i = 0; i < BATCH; i++) {
            block[i] = bench_malloc(bench_rng_range(rng, 16, 512));
            bench_touch_first(block[i]);
        }
        for (size_t i = 0; i < BATCH; i++)
            free(block[i]);
    }
}

static void working_set(size_t operations, void **block, bench_rng *rng) {
    for (size_t i = 0; i < SET; i++)
        block[i] = NULL;
    for (size_t i = 0; i < operations; i++) {
        void **at = &block[bench_rng_below(rng, SET)];
        free(*at);
        *at = bench_malloc(bench_rng_range(rng, 1024, 8192));
        bench_touch_first(*at);
    }
    for (size_t i = 0; i < SET; i++)
        free(block[i]);
}

int main(int argc, char **argv) {
    size_t phases = bench_arg(argc, argv, 1, 60);
    size_t operations = bench_arg(argc, argv, 2, 200000) / BATCH * BATCH;
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    bench_begin();
    void **block = bench_map(BATCH * sizeof *block);
    uint64_t begin = bench_now_ns();
    for (size_t p = 0; p < phases; p++) {
        if (p % 3 == 0)
            pairs(operations, &rng);
        else if (p % 3 == 1)
            batches(operations, block, &rng);
        else
            working_set(operations, block, &rng);
    }
    bench_result((double)(phases * operations), bench_now_ns() - begin);
    return 0;
}
