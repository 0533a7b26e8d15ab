// SPDX-License-Identifier: MIT
// batch ORDER COUNT MIN MAX ROUNDS SEED LIMIT_MS: allocates COUNT blocks of MIN - MAX bytes, then frees them all in
// ORDER (lifo, fifo or random), ROUNDS times, or until LIMIT_MS have passed. The sizes and the random order are drawn
// beforehand. One operation is a malloc and its free.
#include "common.h"

typedef struct {
    size_t count;
    uint32_t *size;
    uint32_t *order;
    void **block;
} plan;

static void shuffle(uint32_t *order, size_t count, bench_rng *rng) {
    for (size_t i = count; i > 1; i--) {
        size_t j = bench_rng_below(rng, (uint32_t)i);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
}

static plan make_plan(const char *order, size_t count, size_t low, size_t high, bench_rng *rng) {
    plan p = {count, bench_map(count * 4), bench_map(count * 4), bench_map(count * sizeof(void *))};
    int lifo = strcmp(order, "lifo") == 0;
    for (size_t i = 0; i < count; i++) {
        p.size[i] = (uint32_t)bench_rng_range(rng, low, high);
        p.order[i] = (uint32_t)(lifo ? count - 1 - i : i);
    }
    if (strcmp(order, "random") == 0)
        shuffle(p.order, count, rng);
    else if (!lifo && strcmp(order, "fifo") != 0)
        bench_fail("order must be lifo, fifo or random");
    return p;
}

static void run_round(const plan *p) {
    for (size_t i = 0; i < p->count; i++) {
        p->block[i] = bench_malloc(p->size[i]);
        bench_touch_first(p->block[i]);
    }
    for (size_t i = 0; i < p->count; i++)
        free(p->block[p->order[i]]);
}

int main(int argc, char **argv) {
    const char *order = bench_word(argc, argv, 1, "lifo");
    size_t count = bench_arg(argc, argv, 2, 10000);
    size_t low = bench_arg(argc, argv, 3, 16);
    size_t high = bench_arg(argc, argv, 4, 256);
    size_t rounds = bench_arg(argc, argv, 5, 500);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 6, 42));
    size_t limit_ms = bench_arg(argc, argv, 7, 0);
    bench_begin();
    plan p = make_plan(order, count, low, high, &rng);
    uint64_t begin = bench_now_ns();
    size_t done = 0;
    for (; done < rounds && !bench_is_over(begin, limit_ms); done++)
        run_round(&p);
    bench_result((double)(count * done), bench_now_ns() - begin);
    return 0;
}
