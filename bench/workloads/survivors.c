// SPDX-License-Identifier: MIT
// survivors MIB SET_MIB SEED: a server that remembers. A working set of SET_MIB of 32 - 512 bytes churns all the time:
// in turn the oldest block and a random one is replaced. One block in 32 is not freed when its time comes but stays for
// ever, until these survivors are MIB. Reports resident memory over live bytes (survivors and working set), mean and
// worst while running; then, the working set freed, over the survivors alone, at once and after three seconds of rest.
// One operation is one block replaced.
#include "common.h"

enum {
    KEEP_ONE_IN = 32,
    SMALLEST = 32,
    LARGEST = 512,
    MEAN = (SMALLEST + LARGEST) / 2,
    SAMPLES = 8,
    REST_MS = 3000,
    SAMPLE_MS = 250
};

typedef struct {
    void **block;
    uint32_t *size;
    size_t slots, oldest;
    size_t set_bytes, kept_bytes;
    size_t operations;
    bench_rng rng;
} server;

static void put(server *s, size_t at) {
    size_t size = bench_rng_range(&s->rng, SMALLEST, LARGEST);
    s->block[at] = bench_malloc(size);
    memset(s->block[at], 3, size);
    s->size[at] = (uint32_t)size;
    s->set_bytes += size;
}

static void retire(server *s, size_t at) {
    s->set_bytes -= s->size[at];
    if (bench_rng_below(&s->rng, KEEP_ONE_IN) == 0)
        s->kept_bytes += s->size[at];
    else
        free(s->block[at]);
}

static size_t next_victim(server *s) {
    if (s->operations++ % 2)
        return bench_rng_below(&s->rng, (uint32_t)s->slots);
    s->oldest = s->oldest + 1 < s->slots ? s->oldest + 1 : 0;
    return s->oldest;
}

static uint64_t serve(server *s, size_t until_kept) {
    uint64_t begin = bench_now_ns();
    while (s->kept_bytes < until_kept) {
        size_t at = next_victim(s);
        retire(s, at);
        put(s, at);
    }
    return bench_now_ns() - begin;
}

typedef struct {
    uint64_t begin_ns;
    size_t base_kib;
} origin;

static double ratio(const origin *from, size_t bytes) {
    return (double)bench_sample_rss(from->begin_ns, from->base_kib) * 1024 / (double)bytes;
}

int main(int argc, char **argv) {
    size_t target = bench_arg(argc, argv, 1, 128) * MIB;
    server s = {.slots = bench_arg(argc, argv, 2, 16) * MIB / MEAN};
    s.rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    bench_begin();
    bench_print_quietly();
    s.block = bench_map(s.slots * sizeof *s.block);
    s.size = bench_map(s.slots * sizeof *s.size);
    origin from = {bench_now_ns(), bench_rss_kib()};
    for (size_t i = 0; i < s.slots; i++)
        put(&s, i);
    uint64_t elapsed = 0;
    double sum = 0, worst = 0;
    for (size_t i = 1; i <= SAMPLES; i++) {
        elapsed += serve(&s, target * i / SAMPLES);
        double now = ratio(&from, s.kept_bytes + s.set_bytes);
        sum += now;
        worst = now > worst ? now : worst;
    }
    for (size_t i = 0; i < s.slots; i++)
        free(s.block[i]);
    double freed = ratio(&from, s.kept_bytes), rested = freed;
    for (unsigned slept = 0; slept < REST_MS; slept += SAMPLE_MS) {
        bench_sleep_ms(SAMPLE_MS);
        rested = ratio(&from, s.kept_bytes);
    }
    bench_open_result();
    bench_speed_fields((double)s.operations, elapsed);
    bench_field("ratio_running", sum / SAMPLES);
    bench_field("ratio_worst", worst);
    bench_field("ratio_freed", freed);
    bench_field("ratio_rested", rested);
    bench_close_result();
    return 0;
}
