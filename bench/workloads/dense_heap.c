// SPDX-License-Identifier: MIT
// dense_heap MIB SEED: a heap that only grows. Fills MIB with 16 - 1,024 bytes, all written, and reports time, the page
// faults it took, resident memory over live bytes and the share of it in huge pages.
#include "common.h"
#include <sys/resource.h>

int main(int argc, char **argv) {
    size_t target = bench_arg(argc, argv, 1, 1024) * MIB;
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 2, 42));
    bench_begin();
    struct rusage before, after;
    size_t base = bench_rss_kib(), live = 0, count = 0;
    void *last = NULL;
    getrusage(RUSAGE_SELF, &before);
    uint64_t begin = bench_now_ns();
    while (live < target) {
        size_t size = bench_rng_range(&rng, 16, 1024);
        void **block = bench_malloc(size);
        memset(block, 1, size);
        *block = last; // stays reachable
        last = block;
        live += size;
        count++;
    }
    uint64_t elapsed = bench_now_ns() - begin;
    getrusage(RUSAGE_SELF, &after);
    bench_keep(last);
    bench_smaps now = bench_smaps_now();
    double rss = (double)(bench_smaps_kib(&now, "\nRss:") - base);
    bench_open_result();
    bench_speed_fields((double)count, elapsed);
    bench_field("faults", (double)(after.ru_minflt - before.ru_minflt));
    bench_field("ratio", rss * 1024 / (double)live);
    bench_field("huge_share", (double)bench_smaps_kib(&now, "\nAnonHugePages:") / rss);
    bench_close_result();
    return 0;
}
