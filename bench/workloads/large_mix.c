// SPDX-License-Identifier: MIT
// large_mix LIVE ITERS LOW_KIB HIGH_KIB SEED: LIVE buffers of LOW_KIB to HIGH_KIB, every doubling as likely as another;
// each iteration replaces a random one by one of another size and writes a byte per page of it.
#include "common.h"

static size_t some_size(bench_rng *rng, size_t low, uint32_t doublings) {
    size_t least = low << bench_rng_below(rng, doublings);
    return bench_rng_range(rng, least, 2 * least - 1);
}

int main(int argc, char **argv) {
    size_t live = bench_arg(argc, argv, 1, 100);
    size_t iterations = bench_arg(argc, argv, 2, 20000);
    size_t low = bench_arg(argc, argv, 3, 16) * KIB, high = bench_arg(argc, argv, 4, 8192) * KIB;
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 5, 42));
    uint32_t doublings = 1;
    while (low << (doublings + 1) <= high)
        doublings++;
    bench_begin();
    void **buffer = bench_map(live * sizeof *buffer);
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < iterations; i++) {
        void **at = &buffer[bench_rng_below(&rng, (uint32_t)live)];
        free(*at);
        size_t size = some_size(&rng, low, doublings);
        volatile char *bytes = *at = bench_malloc(size);
        for (size_t b = 0; b < size; b += 4096)
            bytes[b] = 1;
    }
    bench_result((double)iterations, bench_now_ns() - begin);
    return 0;
}
