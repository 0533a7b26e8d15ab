// SPDX-License-Identifier: MIT
// large_calloc MODE KIB ROUNDS LIMIT_MS: calloc and free of KIB, ROUNDS times, or until LIMIT_MS have passed. "fresh"
// writes one byte in every 64 KiB, so whoever clears memory that the kernel has just cleared is seen; "dirty" writes
// all of it, so that the next calloc must clear what it reuses. Every touched byte is checked to be zero first. One
// operation is a calloc and its free.
#include "common.h"

static void use(volatile char *block, size_t size, size_t step) {
    for (size_t i = 0; i < size; i += step) {
        if (block[i] != 0)
            bench_fail("calloc returned memory that is not zero");
        block[i] = 1;
    }
}

int main(int argc, char **argv) {
    const char *mode = bench_word(argc, argv, 1, "fresh");
    size_t size = bench_arg(argc, argv, 2, 1024) * KIB;
    size_t rounds = bench_arg(argc, argv, 3, 2000);
    size_t limit_ms = bench_arg(argc, argv, 4, 0);
    int dirty = strcmp(mode, "dirty") == 0;
    if (!dirty && strcmp(mode, "fresh") != 0)
        bench_fail("mode must be fresh or dirty");
    bench_begin();
    uint64_t begin = bench_now_ns();
    size_t done = 0;
    for (; done < rounds && !bench_is_over(begin, limit_ms); done++) {
        char *block = calloc(size / 64, 64);
        if (!block)
            bench_fail("calloc returned NULL");
        use(block, size, 64 * KIB);
        if (dirty)
            memset(block, 0x5a, size);
        bench_keep(block);
        free(block);
    }
    bench_result((double)done, bench_now_ns() - begin);
    return 0;
}
