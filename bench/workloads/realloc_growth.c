// SPDX-License-Identifier: MIT
// realloc_growth MODE MAX_KIB ROUNDS LIMIT_MS: grows one buffer with realloc from 64 bytes to MAX_KIB, either doubling
// ("double"), by 1 % and at least 16 bytes a step ("percent"), or by 100 bytes a step ("append"); every new part is
// written. No round begins when LIMIT_MS have passed. One operation is one realloc.
#include "common.h"

static size_t next_size(size_t size, char mode) {
    if (mode == 'd')
        return size * 2;
    if (mode == 'a')
        return size + 100;
    return size + (size / 100 > 16 ? size / 100 : 16);
}

static size_t grow(size_t limit, char mode) {
    size_t size = 64, steps = 0;
    char *buffer = bench_malloc(size);
    memset(buffer, 1, size);
    while (size < limit) {
        size_t bigger = next_size(size, mode);
        buffer = realloc(buffer, bigger);
        if (!buffer)
            bench_fail("realloc returned NULL");
        memset(buffer + size, 1, bigger - size);
        size = bigger;
        steps++;
    }
    bench_keep(buffer);
    free(buffer);
    return steps;
}

int main(int argc, char **argv) {
    const char *mode = bench_word(argc, argv, 1, "double");
    size_t limit = bench_arg(argc, argv, 2, 65536) * KIB;
    size_t rounds = bench_arg(argc, argv, 3, 20);
    size_t limit_ms = bench_arg(argc, argv, 4, 0);
    if (strcmp(mode, "double") != 0 && strcmp(mode, "percent") != 0 && strcmp(mode, "append") != 0)
        bench_fail("mode must be double, percent or append");
    bench_begin();
    uint64_t begin = bench_now_ns();
    size_t steps = 0;
    for (size_t r = 0; r < rounds && !bench_is_over(begin, limit_ms); r++)
        steps += grow(limit, *mode);
    bench_result((double)steps, bench_now_ns() - begin);
    return 0;
}
