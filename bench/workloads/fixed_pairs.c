// SPDX-License-Identifier: MIT
// fixed_pairs SIZE ITERS: malloc(SIZE) and free at once, ITERS times; the shortest path there is. One operation is a
// pair.
#include "common.h"

int main(int argc, char **argv) {
    size_t size = bench_arg(argc, argv, 1, 64);
    size_t iterations = bench_arg(argc, argv, 2, 10000000);
    bench_begin();
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < iterations; i++) {
        void *block = bench_malloc(size);
        bench_touch_first(block);
        free(block);
    }
    bench_result((double)iterations, bench_now_ns() - begin);
    return 0;
}
