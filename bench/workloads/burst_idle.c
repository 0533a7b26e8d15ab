// SPDX-License-Identifier: MIT
// burst_idle MIB MODE SECONDS SEED: allocates MIB of mixed small blocks (16 - 2,048 bytes), frees all of them ("all")
// or a random 90 % ("scattered"), and then does nothing at all for SECONDS while resident memory is sampled. Lines
// "series: t_ms rss_kib lazyfree_kib" give the curve. floor_kib is what pages that hold a live byte add up to;
// over_floor is resident memory after three seconds over it.
#include "common.h"

enum { SMALLEST = 16, LARGEST = 2048, SAMPLE_MS = 100, PAGE = 4096 };

typedef struct {
    char *at;
    uint32_t size;
} block;

static size_t fill(block *blocks, size_t target, bench_rng *rng) {
    size_t count = 0;
    for (size_t bytes = 0; bytes < target; count++) {
        // Small sizes are the common ones: the square of a uniform draw.
        uint64_t draw = bench_rng_below(rng, 1024);
        size_t size = SMALLEST + (size_t)(draw * draw * (LARGEST - SMALLEST) / (1024 * 1024));
        blocks[count] = (block){bench_malloc(size), (uint32_t)size};
        memset(blocks[count].at, 1, size);
        bytes += size;
    }
    return count;
}

// Frees the blocks to go and returns how many stay, moved to the front.
static size_t release(block *blocks, size_t count, int scattered, bench_rng *rng) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (scattered && bench_rng_below(rng, 10) == 0)
            blocks[kept++] = blocks[i];
        else
            free(blocks[i].at);
    }
    return kept;
}

static int by_address(const void *a, const void *b) {
    const block *left = a, *right = b;
    return left->at < right->at ? -1 : left->at > right->at;
}

// KiB of the pages that hold at least one byte of a live block: no allocator can go below it without moving blocks.
static size_t page_floor_kib(const block *sorted, size_t count) {
    uintptr_t last = 0;
    size_t pages = 0;
    for (size_t i = 0; i < count; i++) {
        uintptr_t from = (uintptr_t)sorted[i].at / PAGE, to = ((uintptr_t)sorted[i].at + sorted[i].size - 1) / PAGE;
        if (from <= last)
            from = last + 1;
        if (to >= from)
            pages += to - from + 1;
        if (to > last)
            last = to;
    }
    return pages * PAGE / KIB;
}

typedef struct {
    size_t after_1s, after_2s, after_3s, end;
} idle;

static idle watch(size_t seconds, size_t base) {
    idle seen = {0};
    uint64_t begin = bench_now_ns();
    for (size_t t = 0; t <= seconds * 1000; t += SAMPLE_MS) {
        bench_smaps smaps = bench_smaps_now();
        size_t rss = bench_smaps_kib(&smaps, "\nRss:"), kib = rss > base ? rss - base : 0;
        printf("series: %zu %zu %zu\n", t, kib, bench_smaps_kib(&smaps, "\nLazyFree:"));
        seen.after_1s = t <= 1000 ? kib : seen.after_1s;
        seen.after_2s = t <= 2000 ? kib : seen.after_2s;
        seen.after_3s = t <= 3000 ? kib : seen.after_3s;
        seen.end = kib;
        uint64_t due = begin + (t + SAMPLE_MS) * 1000000, now = bench_now_ns();
        if (now < due)
            bench_sleep_ms((unsigned)((due - now) / 1000000));
    }
    return seen;
}

static size_t live_bytes(const block *blocks, size_t count) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += blocks[i].size;
    return sum;
}

int main(int argc, char **argv) {
    bench_print_quietly(); // it must not wake the allocator
    size_t target = bench_arg(argc, argv, 1, 200) * MIB;
    int scattered = strcmp(bench_word(argc, argv, 2, "all"), "scattered") == 0;
    size_t seconds = bench_arg(argc, argv, 3, 5);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 4, 42));
    bench_begin();
    block *blocks = bench_map(target / SMALLEST / 8 * sizeof *blocks);
    size_t base = bench_rss_kib();
    size_t count = fill(blocks, target, &rng);
    size_t peak = bench_rss_kib() - base;
    size_t kept = release(blocks, count, scattered, &rng);
    idle seen = watch(seconds, base);
    // From here on the figures are taken, so the allocator may wake.
    qsort(blocks, kept, sizeof *blocks, by_address);
    bench_open_result();
    bench_field("peak_kib", (double)peak);
    bench_field("rss_1s_kib", (double)seen.after_1s);
    bench_field("rss_2s_kib", (double)seen.after_2s);
    bench_field("rss_3s_kib", (double)seen.after_3s);
    bench_field("rss_end_kib", (double)seen.end);
    bench_field("live_kib", (double)live_bytes(blocks, kept) / 1024);
    size_t floor_kib = page_floor_kib(blocks, kept);
    bench_field("floor_kib", (double)floor_kib);
    if (floor_kib)
        bench_field("over_floor", (double)seen.after_3s / (double)floor_kib);
    bench_close_result();
    return 0;
}
