// SPDX-License-Identifier: MIT
// malloc_large LIVE ITERS SEED: LIVE buffers of 5 - 25 MiB; each iteration replaces a random one and writes a byte per
// page of its first quarter.
#include "common.h"

int main(int argc, char **argv) {
    size_t live = bench_arg(argc, argv, 1, 20);
    size_t iterations = bench_arg(argc, argv, 2, 1000);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    bench_begin();
    void **buffer = bench_map(live * sizeof *buffer);
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < iterations; i++) {
        void **at = &buffer[bench_rng_below(&rng, (uint32_t)live)];
        free(*at);
        size_t size = bench_rng_range(&rng, 5 * MIB, 25 * MIB);
        volatile char *bytes = *at = bench_malloc(size);
        for (size_t b = 0; b < size / 4; b += 4096)
            bytes[b] = 1;
    }
    bench_result((double)iterations, bench_now_ns() - begin);
    return 0;
}
