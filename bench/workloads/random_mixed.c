// SPDX-License-Identifier: MIT
// random_mixed ITERS WS SEED: one thread, WS slots. Each iteration picks a random slot: a full one is freed, an empty
// one gets 16 - 1,039 bytes, of which the first and the last are touched.
#include "common.h"

static size_t pick(uint32_t random, size_t slots) {
    return (slots & (slots - 1)) == 0 ? random & (slots - 1) : random % slots;
}

static void churn(void **slot, size_t slots, size_t iterations, bench_rng *rng) {
    for (size_t i = 0; i < iterations; i++) {
        uint32_t random = bench_rng_next(rng);
        size_t at = pick(random, slots);
        if (slot[at]) {
            free(slot[at]);
            slot[at] = NULL;
        } else {
            size_t size = 16 + ((random >> 16) & 1023);
            slot[at] = bench_malloc(size);
            bench_touch_ends(slot[at], size);
        }
    }
}

int main(int argc, char **argv) {
    size_t iterations = bench_arg(argc, argv, 1, 10000000);
    size_t slots = bench_arg(argc, argv, 2, 256);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    bench_begin();
    void **slot = bench_map(slots * sizeof *slot);
    uint64_t begin = bench_now_ns();
    churn(slot, slots, iterations, &rng);
    bench_result((double)iterations, bench_now_ns() - begin);
    return 0;
}
