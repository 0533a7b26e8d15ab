// SPDX-License-Identifier: MIT
// survivors ROUNDS SEED: long-lived blocks scattered among short-lived ones. Every round allocates 64 MiB of 32 - 512
// bytes, keeps one block in 32 for ever and frees the rest, in random order; the survivors' sizes and the short-lived
// ones' are drawn alike. Reports resident memory over live bytes at the end, and after three seconds of rest.
#include "common.h"

enum { ROUND_BYTES = 64 << 20, KEEP_ONE_IN = 32, SMALLEST = 32, LARGEST = 512 };

typedef struct {
    void **block;
    size_t count;
} table;

static size_t fill_round(table *t, table *kept, bench_rng *rng) {
    size_t live = 0;
    for (size_t bytes = 0; bytes < ROUND_BYTES;) {
        size_t size = bench_rng_range(rng, SMALLEST, LARGEST);
        void *block = bench_malloc(size);
        memset(block, 3, size);
        bytes += size;
        if (bench_rng_below(rng, KEEP_ONE_IN) == 0) {
            kept->block[kept->count++] = block;
            live += size;
        } else {
            t->block[t->count++] = block;
        }
    }
    return live;
}

static void free_in_random_order(table *t, bench_rng *rng) {
    while (t->count) {
        size_t at = bench_rng_below(rng, (uint32_t)t->count);
        free(t->block[at]);
        t->block[at] = t->block[--t->count];
    }
}

int main(int argc, char **argv) {
    size_t rounds = bench_arg(argc, argv, 1, 32);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 2, 42));
    bench_begin();
    size_t slots = ROUND_BYTES / SMALLEST;
    table brief = {bench_map(slots * sizeof(void *)), 0};
    table kept = {bench_map(rounds * slots / 8 * sizeof(void *)), 0};
    size_t base = bench_rss_kib(), live = 0, freed = 0;
    uint64_t begin = bench_now_ns();
    for (size_t r = 0; r < rounds; r++) {
        live += fill_round(&brief, &kept, &rng);
        freed += brief.count;
        free_in_random_order(&brief, &rng);
    }
    uint64_t elapsed = bench_now_ns() - begin;
    double at_end = (double)(bench_rss_kib() - base) * 1024 / (double)live;
    bench_sleep_ms(3000);
    bench_open_result();
    bench_speed_fields((double)freed, elapsed);
    bench_field("ratio_end", at_end);
    bench_field("ratio_rested", (double)(bench_rss_kib() - base) * 1024 / (double)live);
    bench_close_result();
    return 0;
}
