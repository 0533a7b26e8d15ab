// SPDX-License-Identifier: MIT
// glibc_simple SIZE ROUNDS: the shape of glibc's own simple benchmark. For each of several counts (25, 100, 400, 1,600)
// it allocates that many blocks of SIZE, then frees them oldest first, ROUNDS times over. One operation is a malloc and
// its free.
#include "common.h"

enum { MOST = 1600 };

static void run(void **block, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++)
        block[i] = bench_malloc(size);
    for (size_t i = 0; i < count; i++)
        free(block[i]);
}

int main(int argc, char **argv) {
    static const size_t counts[] = {25, 100, 400, MOST};
    size_t size = bench_arg(argc, argv, 1, 128);
    size_t rounds = bench_arg(argc, argv, 2, 4000);
    bench_begin();
    void **block = bench_map(MOST * sizeof *block);
    size_t operations = 0;
    uint64_t begin = bench_now_ns();
    for (size_t r = 0; r < rounds; r++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            run(block, counts[c], size);
            operations += counts[c];
        }
    bench_result((double)operations, bench_now_ns() - begin);
    return 0;
}
