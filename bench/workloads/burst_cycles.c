// SPDX-License-Identifier: MIT
// burst_cycles MIB CYCLES HZ SEED: bursts at a steady beat. HZ times a second MIB of 16 - 1,024 bytes are allocated,
// written and freed; between the bursts the thread sleeps. Only the bursts are timed: whoever gives memory back too
// eagerly pays here.
#include "common.h"

static size_t burst(void **block, size_t target, bench_rng *rng) {
    size_t count = 0;
    for (size_t bytes = 0; bytes < target; count++) {
        size_t size = bench_rng_range(rng, 16, 1024);
        block[count] = bench_malloc(size);
        memset(block[count], 1, size);
        bytes += size;
    }
    for (size_t i = 0; i < count; i++)
        free(block[i]);
    return count;
}

int main(int argc, char **argv) {
    size_t target = bench_arg(argc, argv, 1, 32) * MIB;
    size_t cycles = bench_arg(argc, argv, 2, 40);
    size_t hz = bench_arg(argc, argv, 3, 10);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 4, 42));
    bench_begin();
    void **block = bench_map(target / 16 * sizeof *block);
    uint64_t busy = 0, beat = 1000000000u / hz, due = bench_now_ns();
    size_t operations = 0;
    for (size_t c = 0; c < cycles; c++) {
        uint64_t begin = bench_now_ns();
        operations += burst(block, target, &rng);
        uint64_t now = bench_now_ns();
        busy += now - begin;
        due += beat;
        if (now < due)
            bench_sleep_ms((unsigned)((due - now) / 1000000));
    }
    bench_result((double)operations, busy);
    return 0;
}
