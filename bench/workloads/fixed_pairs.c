// SPDX-License-Identifier: MIT
// fixed_pairs SIZE ITERS LIMIT_MS: malloc(SIZE) and free at once, ITERS times, or until LIMIT_MS have passed; the
// shortest path there is. One operation is a pair.
#include "common.h"

enum { PART = 10000 }; // pairs between two looks at the clock

static void run_pairs(size_t size, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *block = bench_malloc(size);
        bench_touch_first(block);
        free(block);
    }
}

int main(int argc, char **argv) {
    size_t size = bench_arg(argc, argv, 1, 64);
    size_t iterations = bench_arg(argc, argv, 2, 10000000);
    size_t limit_ms = bench_arg(argc, argv, 3, 0);
    bench_begin();
    uint64_t begin = bench_now_ns();
    size_t done = 0;
    while (done < iterations && !bench_is_over(begin, limit_ms)) {
        size_t part = iterations - done < PART ? iterations - done : PART;
        run_pairs(size, part);
        done += part;
    }
    bench_result((double)done, bench_now_ns() - begin);
    return 0;
}
