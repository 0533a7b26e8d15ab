/* SPDX-License-Identifier: MIT
 *
 * The pace of samples, with a clock and bytes of this test's: how many samples a thread has, whatever it does, and that
 * estimates are right at any pace. What a cycle of blocks adds to the variance is known, by the interval in force; so
 * the estimate lies within four standard errors of the truth. Counted by the interval that was asked for, it does not.
 */
#include "rooms.h"

#include "sample/chance.h"
#include "sample/format.h"
#include "sample/sampler.h"

#include <math.h>

enum { ASKED_LOG2 = 19, SIZES = 4 };

/* What a thread does again and again. */
typedef struct cycle {
    size_t sizes[SIZES]; /* 0: none */
    uint64_t ns;
} cycle_t;

typedef struct figure {
    double truth, estimate, variance, as_asked;
} figure_t;

typedef struct thread {
    sample_draw_t draw;
    uint64_t cost_ns; /* of a sample */
    uint64_t now_ns, samples;
    uint64_t others; /* samples of other threads */
    figure_t bytes[SIZES], objects[SIZES];
} thread_t;

static double chance_at(size_t size, unsigned log2) { return -expm1(-(double)size / (double)(UINT64_C(1) << log2)); }

static uint32_t now_us(const thread_t *thread) { return (uint32_t)(thread->now_ns / 1000); }

/* `count` blocks that come with this interval. */
static void expect(thread_t *thread, unsigned at, size_t size, double count) {
    const double p = chance_at(size, thread->draw.interval_log2), bytes = (double)size;
    thread->bytes[at].truth += count * bytes;
    thread->bytes[at].variance += count * bytes * bytes * (1 - p) / p;
    thread->objects[at].truth += count;
    thread->objects[at].variance += count * (1 - p) / p;
}

static void sampled(thread_t *thread, unsigned at, size_t size) {
    const chance_weight_t weight = chance_weight(size, thread->draw.due_log2), asked = chance_weight(size, ASKED_LOG2);
    thread->bytes[at].estimate += ldexp((double)weight.bytes, -PROFILE_BYTES_SHIFT);
    thread->bytes[at].as_asked += ldexp((double)asked.bytes, -PROFILE_BYTES_SHIFT);
    thread->objects[at].estimate += ldexp((double)weight.objects, -PROFILE_OBJECTS_SHIFT);
    thread->now_ns += thread->cost_ns;
    thread->samples++;
    const pace_profile_t profile = {ASKED_LOG2, thread->samples + thread->others};
    pace_sampled(&thread->draw.pace, profile, thread->draw.due_after, now_us(thread), thread->cost_ns);
}

/* One cycle, block by block. */
static void step(thread_t *thread, const cycle_t *cycle) {
    thread->now_ns += cycle->ns;
    for (unsigned at = 0; at < SIZES && cycle->sizes[at] != 0; at++) {
        expect(thread, at, cycle->sizes[at], 1);
        if (sample_is_due(&thread->draw, cycle->sizes[at], cycle->sizes[at]))
            sampled(thread, at, cycle->sizes[at]);
    }
}

static uint64_t bytes_of(const cycle_t *cycle) {
    uint64_t bytes = 0;
    for (unsigned at = 0; at < SIZES; at++)
        bytes += cycle->sizes[at];
    return bytes;
}

/* More than any of these tests may have; without a pace they would take hours to draw theirs. */
enum { SAMPLES_MAX = 4 * 1000 * 1000 };

/* Cycles in which nothing is due, at once, but for a look at the pace each `look` cycles. */
static void run(thread_t *thread, const cycle_t *cycle, uint64_t cycles, uint64_t look) {
    const uint64_t bytes = bytes_of(cycle);
    while (cycles > 0) {
        const uint64_t quiet = hk_min(hk_min((uint64_t)sample_bytes_left(&thread->draw) / bytes, look), cycles - 1);
        for (unsigned at = 0; at < SIZES && cycle->sizes[at] != 0; at++)
            expect(thread, at, cycle->sizes[at], (double)quiet);
        CHECK(!sample_is_due(&thread->draw, quiet * bytes, 0));
        thread->now_ns += quiet * cycle->ns;
        if (sample_is_paced(&thread->draw))
            sample_keep_pace(&thread->draw, now_us(thread));
        step(thread, cycle);
        CHECK(thread->samples < SAMPLES_MAX);
        cycles -= quiet + 1;
    }
}

/* Random numbers are the same every time. */
static thread_t new_thread(uint64_t seed, uint64_t cost_ns) {
    thread_t thread = {.cost_ns = cost_ns, .others = PACE_FIRST};
    CHECK(!sample_is_due(&thread.draw, 0, 0));
    thread.draw.random = seed;
    thread.draw.left = thread.draw.distance = chance_distance(&thread.draw.random, ASKED_LOG2);
    return thread;
}

static void is_right(const char *what, size_t size, const figure_t *figure) {
    const double away = figure->estimate - figure->truth;
    if (away * away > 16 * figure->variance)
        test_fail("%s of %zu bytes: %.0f, not %.0f, standard error %.0f", what, size, figure->estimate, figure->truth,
                  sqrt(figure->variance));
}

static void all_right(const thread_t *thread, const cycle_t *cycle) {
    for (unsigned at = 0; at < SIZES && cycle->sizes[at] != 0; at++) {
        is_right("bytes", cycle->sizes[at], &thread->bytes[at]);
        is_right("blocks", cycle->sizes[at], &thread->objects[at]);
    }
}

/* Samples that are within what pace.h says; `changes` of speed take eight more each. */
static void within_bound(const thread_t *thread, uint64_t changes) {
    const uint64_t first = thread->others < PACE_FIRST ? PACE_FIRST - thread->others : 0;
    const uint64_t most = first + (PACE_BURST_NS + thread->now_ns / PACE_SHARE) / thread->cost_ns + 8 * (changes + 1);
    if (thread->samples > most)
        test_fail("%lu samples of %lu ns in %lu ns, more than %lu", thread->samples, thread->cost_ns, thread->now_ns,
                  most);
}

/* 1 MiB, and 64 bytes beside it, as fast as malloc and free can be. Most are 64 bytes; few of these are seen. */
static void in_a_tight_loop(uint64_t cost_ns) {
    const cycle_t cycle = {.sizes = {1 << 20, 64}, .ns = 10};
    thread_t thread = new_thread(1, cost_ns);
    run(&thread, &cycle, UINT64_C(20) * 1000 * 1000 * 1000, 1 << 20);
    all_right(&thread, &cycle);
    within_bound(&thread, 0);
    CHECK(thread.bytes[1].estimate > 0);
    const figure_t *large = &thread.bytes[0];
    const double away = large->as_asked - large->truth;
    CHECK(away * away > 16 * large->variance);
}

/* Sizes of all kinds, in phases of all speeds, with pauses. */
static void in_phases(uint64_t look) {
    const cycle_t fast = {.sizes = {1 << 20, 64, 40000, 2000}, .ns = 40};
    const cycle_t slow = {.sizes = {1 << 20, 64, 40000, 2000}, .ns = 400 * 1000};
    enum { PHASES = 4000 };
    thread_t thread = new_thread(2, 1000);
    for (unsigned phase = 0; phase < PHASES; phase++) {
        run(&thread, &fast, 1 + next_random(&thread.draw.random) % 200000, look);
        run(&thread, &slow, 1 + next_random(&thread.draw.random) % 200, 1);
        thread.now_ns += next_random(&thread.draw.random) % 20 * 1000 * 1000;
    }
    all_right(&thread, &fast);
    within_bound(&thread, 2 * PHASES);
}

/* What a calm thread does for a moment is seen as it was asked for. */
static void a_burst_is_seen_whole(void) {
    const cycle_t cycle = {.sizes = {1 << 20, 64}, .ns = 10};
    thread_t thread = new_thread(3, 2000);
    for (unsigned burst = 0; burst < 100; burst++) {
        const uint64_t before = thread.samples;
        while (thread.samples - before < PACE_BURST_NS / thread.cost_ns) {
            CHECK_EQ(thread.draw.interval_log2, ASKED_LOG2);
            step(&thread, &cycle);
        }
        thread.now_ns += (uint64_t)PACE_BURST_NS * PACE_SHARE;
    }
    all_right(&thread, &cycle);
}

/* After haste, the interval is what was asked for at the second look at the latest. */
static void it_rests(void) {
    const cycle_t fast = {.sizes = {1 << 20}, .ns = 10}, slow = {.sizes = {64}, .ns = 1000};
    enum { COST_NS = 1000, REST_US = 2 * COST_NS * PACE_SHARE / 1000 };
    thread_t thread = new_thread(4, COST_NS);
    run(&thread, &fast, 10 * 1000 * 1000, 1 << 20);
    CHECK(thread.draw.pace.longer_log2 > 10);
    run(&thread, &slow, 2 * REST_US, 1);
    CHECK(thread.draw.pace.longer_log2 < 10);
    run(&thread, &slow, REST_US + 1, 1);
    CHECK_EQ(thread.draw.pace.longer_log2, 0);
    CHECK_EQ(thread.draw.interval_log2, ASKED_LOG2);
}

/* However few slow paths it takes. */
static void it_is_looked_at_again(void) {
    const cycle_t fast = {.sizes = {1 << 20}, .ns = 10};
    thread_t thread = new_thread(5, 1000);
    run(&thread, &fast, 10 * 1000 * 1000, 1 << 20);
    CHECK(sample_is_paced(&thread.draw));
    thread.draw.left = INT64_C(1) << thread.draw.interval_log2;
    CHECK_EQ(sample_bytes_left(&thread.draw), thread.draw.left / 8);
}

/* 95 MiB in 20 ms, as a program begins: known to a seventh. Later in a profile it would be a dozen samples. */
static void the_first_are_many(void) {
    const cycle_t cycle = {.sizes = {1000}, .ns = 200};
    thread_t thread = new_thread(6, 2000);
    thread.others = 0;
    run(&thread, &cycle, 100 * 1000, 1);
    CHECK(thread.samples * thread.cost_ns <= PACE_BURST_NS + thread.now_ns / PACE_FIRST_SHARE + 8 * thread.cost_ns);
    CHECK(thread.samples >= 60);
    const figure_t *blocks = &thread.bytes[0];
    CHECK(blocks->variance <= 0.15 * 0.15 * blocks->truth * blocks->truth);
    all_right(&thread, &cycle);
    run(&thread, &cycle, UINT64_C(100) * 1000 * 1000, 1 << 20);
    within_bound(&thread, 0);
    all_right(&thread, &cycle);
}

static const pace_profile_t later = {PACE_LOG2_MIN, PACE_FIRST};

/* One sample that took long, as the first of all does, or one in which another thread ran, is not the measure of those
 * that follow. */
static void one_that_took_long(void) {
    pace_t pace = {0};
    pace_sampled(&pace, later, 1 << 20, 1, UINT64_MAX);
    CHECK_EQ(pace.longer_log2, 0);
    CHECK(pace.cost_ns < 2 * PACE_COST_NS);
    for (unsigned i = 0; i < 8 * PACE_COST_SHARE; i++)
        pace_sampled(&pace, later, 1 << 20, 1, 1000);
    CHECK(pace.cost_ns >= 900 && pace.cost_ns <= 1100);
    pace_sampled(&pace, later, 1 << 20, 1, UINT64_MAX);
    CHECK(pace.cost_ns <= 1500);
    for (unsigned i = 0; i < 8 * PACE_COST_SHARE; i++)
        pace_sampled(&pace, later, 1 << 20, 1, 10000);
    CHECK(pace.cost_ns >= 9000);
}

/* Who asks for more samples than 512 KiB gives has them all, and no interval is beyond the longest. */
static void ends_of_the_range(void) {
    const pace_profile_t asked = {PACE_LOG2_MIN - 1, PACE_FIRST};
    pace_t dense = {0}, sparse = {.spent_ns = UINT32_MAX / 2};
    for (uint32_t us = 0; us < 1000; us++) {
        pace_sampled(&dense, asked, UINT64_MAX, us, 1000);
        CHECK_EQ(dense.longer_log2, 0);
    }
    pace_sampled(&sparse, later, UINT64_MAX, 1, PACE_COST_NS);
    CHECK_EQ(sparse.longer_log2, CHANCE_LOG2_MAX - PACE_LOG2_MIN);
    const uint32_t rest_us = 2 * sparse.cost_ns * PACE_SHARE / 1000;
    CHECK(!pace_rest(&sparse, PACE_LOG2_MIN, 0, rest_us));
    CHECK(pace_rest(&sparse, PACE_LOG2_MIN, 0, rest_us + 1));
    CHECK_EQ(sparse.longer_log2, 0);
}

int main(void) {
    start_map();
    sample_start(UINT64_C(1) << ASKED_LOG2, SAMPLE_FOR_PROGRAM);
    in_a_tight_loop(300);
    in_a_tight_loop(1000);
    in_a_tight_loop(5000);
    in_phases(1 << 20);
    in_phases(100);
    a_burst_is_seen_whole();
    it_rests();
    it_is_looked_at_again();
    the_first_are_many();
    one_that_took_long();
    ends_of_the_range();
    return CHECK_PASS;
}
