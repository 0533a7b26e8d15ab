// SPDX-License-Identifier: MIT
// fragmentation LIVE_MIB PHASES SEED PAUSE_MS: LIVE_MIB stay allocated while the mix of sizes changes from phase to
// phase. A phase first replaces every block of the last mix, in random order, by blocks of its own mix as room appears;
// then half of the live set turns over once more within the new mix, in ten parts with PAUSE_MS of rest before each.
// Reports resident memory over live bytes at the end of the phases after the first: mean, worst, and the drift from the
// second phase to the last; and the worst that was seen while one mix took the place of another. One operation is one
// block allocated; the pauses are not timed.
#include "common.h"

enum { SAMPLES_PER_TRANSITION = 8, PARTS_OF_CHURN = 10 };

typedef struct {
    size_t low, high;
} mix;

static const mix MIXES[] = {{16, 128}, {512, 1500},   {64, 256},   {2048, 8192},
                            {24, 64},  {9000, 40000}, {128, 1024}, {16, 4096}};

// The first `old` blocks are of the last mix, the others of this one.
typedef struct {
    void **block;
    uint32_t *size;
    size_t old, count, capacity;
    size_t live, target; // bytes
    size_t next;         // size of the block that waits for room
    size_t operations;
    unsigned pause_ms;
    mix mix;
    bench_rng rng;
} heap;

typedef struct {
    size_t base_kib;
    uint64_t begin_ns, elapsed_ns;
    double second, last, worst, sum, transition;
} figures;

static size_t draw_size(heap *h) { return bench_rng_range(&h->rng, h->mix.low, h->mix.high); }

static void fill_room(heap *h) {
    for (; h->live + h->next <= h->target; h->next = draw_size(h)) {
        if (h->count == h->capacity)
            bench_fail("fragmentation: table is full");
        h->block[h->count] = bench_malloc(h->next);
        memset(h->block[h->count], 7, h->next);
        h->size[h->count++] = (uint32_t)h->next;
        h->live += h->next;
        h->operations++;
    }
}

static void move(heap *h, size_t to, size_t from) {
    h->block[to] = h->block[from];
    h->size[to] = h->size[from];
}

// Frees one block and closes the gap: with another old one if it was old, and then with the last of all.
static size_t drop(heap *h, size_t at) {
    size_t size = h->size[at];
    free(h->block[at]);
    if (at < h->old) {
        move(h, at, --h->old);
        at = h->old;
    }
    move(h, at, --h->count);
    h->live -= size;
    return size;
}

static double ratio_now(const heap *h, const figures *f) {
    return (double)bench_sample_rss(f->begin_ns, f->base_kib) * 1024 / (double)h->live;
}

static void fill_from_nothing(heap *h, figures *f) {
    uint64_t begin = bench_now_ns();
    fill_room(h);
    f->elapsed_ns += bench_now_ns() - begin;
}

static void replace_old(heap *h, size_t until) {
    while (h->old > until) {
        drop(h, bench_rng_below(&h->rng, (uint32_t)h->old));
        fill_room(h);
    }
}

static void replace_last_mix(heap *h, figures *f) {
    size_t all = h->old;
    for (size_t i = 1; i <= SAMPLES_PER_TRANSITION; i++) {
        uint64_t begin = bench_now_ns();
        replace_old(h, all - all * i / SAMPLES_PER_TRANSITION);
        f->elapsed_ns += bench_now_ns() - begin;
        double ratio = ratio_now(h, f);
        f->transition = ratio > f->transition ? ratio : f->transition;
    }
}

static void churn(heap *h, figures *f, size_t bytes) {
    for (size_t part = 0; part < PARTS_OF_CHURN; part++) {
        bench_sleep_ms(h->pause_ms);
        uint64_t begin = bench_now_ns();
        for (size_t turned = 0; turned < bytes / PARTS_OF_CHURN; fill_room(h))
            turned += drop(h, bench_rng_below(&h->rng, (uint32_t)h->count));
        f->elapsed_ns += bench_now_ns() - begin;
    }
}

static void run_phase(heap *h, figures *f, mix m) {
    h->mix = m;
    h->next = draw_size(h);
    h->old = h->count;
    if (h->old)
        replace_last_mix(h, f);
    else
        fill_from_nothing(h, f);
    churn(h, f, h->target / 2);
}

static void note(figures *f, size_t phase, double ratio) {
    fprintf(stderr, "phase %zu: rss / live = %.3f, worst transition so far %.3f\n", phase, ratio, f->transition);
    if (phase == 0)
        return;
    if (phase == 1)
        f->second = ratio;
    f->last = ratio;
    f->sum += ratio;
    f->worst = ratio > f->worst ? ratio : f->worst;
}

int main(int argc, char **argv) {
    heap h = {.target = bench_arg(argc, argv, 1, 256) * MIB};
    size_t phases = bench_arg(argc, argv, 2, 9);
    h.rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    h.pause_ms = (unsigned)bench_arg(argc, argv, 4, 0);
    if (phases < 2)
        bench_fail("fragmentation needs at least 2 phases");
    bench_begin();
    bench_print_quietly();
    h.capacity = h.target / 20;
    h.block = bench_map(h.capacity * sizeof *h.block);
    h.size = bench_map(h.capacity * sizeof *h.size);
    figures f = {.base_kib = bench_rss_kib(), .begin_ns = bench_now_ns()};
    for (size_t phase = 0; phase < phases; phase++) {
        run_phase(&h, &f, MIXES[phase % (sizeof MIXES / sizeof *MIXES)]);
        note(&f, phase, ratio_now(&h, &f));
    }
    bench_open_result();
    bench_speed_fields((double)h.operations, f.elapsed_ns);
    bench_field("ratio_mean", f.sum / (double)(phases - 1));
    bench_field("ratio_max", f.worst);
    bench_field("ratio_transition", f.transition);
    bench_field("drift", f.last - f.second);
    bench_close_result();
    return 0;
}
