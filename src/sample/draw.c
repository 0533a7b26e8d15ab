/* SPDX-License-Identifier: MIT */
#include "sample/draw.h"

#include "base/bits.h"
#include "sample/chance.h"
#include "sys/sys.h"

enum {
    LOOK_EACH = 64, /* slow paths of a thread that is sampled less often, for one look at the clock, */
    LOOKS = 8,      /* ... and looks in the bytes of its interval, as it may take none of them */
};

_Atomic uint32_t hk_sample_generation;
_Atomic bool hk_sample_active;
static _Atomic uint32_t interval_log2;

uint32_t draw_interval_log2(void) { return atomic_load_explicit(&interval_log2, memory_order_relaxed); }

void draw_set_interval(uint32_t log2) { atomic_store_explicit(&interval_log2, log2, memory_order_relaxed); }

void draw_all_anew(void) {
    uint32_t next = sample_generation() + 1;
    atomic_store_explicit(&hk_sample_generation, next + (next == 0), memory_order_relaxed);
}

void draw_set_active(bool active) {
    atomic_store_explicit(&hk_sample_active, active, memory_order_relaxed);
    draw_all_anew();
}

static void draw_next(sample_draw_t *draw) {
    draw->interval_log2 = (uint8_t)hk_min(draw_interval_log2() + draw->pace.longer_log2, CHANCE_LOG2_MAX);
    draw->left = sample_is_active() ? chance_distance(&draw->random, draw->interval_log2) : INT64_MAX;
    draw->distance = draw->left;
}

/* Allocated since the draw. */
static uint64_t passed_of(const sample_draw_t *draw) { return (uint64_t)(draw->distance - draw->left); }

/* For another profile than the last time. */
static void draw_first(sample_draw_t *draw, uint32_t generation) {
    uint64_t seed;
    sys_random(&seed, sizeof seed);
    *draw = (sample_draw_t){.random = seed | 1, .generation = generation};
    draw_next(draw);
}

bool sample_is_due(sample_draw_t *draw, uint64_t elapsed, uint64_t size) {
    const uint32_t generation = sample_generation();
    if (hk_unlikely(draw->generation != generation)) {
        draw_first(draw, generation);
        elapsed = size;
    }
    if (draw->left == INT64_MAX)
        return false;
    draw->left -= (int64_t)elapsed;
    if (draw->left >= 0 || size == 0)
        return false;
    draw->due_log2 = draw->interval_log2;
    draw->due_after = passed_of(draw);
    draw_next(draw);
    return true;
}

bool sample_must_keep_pace(sample_draw_t *draw) {
    return ++draw->looks % LOOK_EACH == 0 && pace_can_rest(&draw->pace, (uint32_t)sys_now_us());
}

/* A sample that waits for the next block is not lost. */
void sample_keep_pace(sample_draw_t *draw, uint32_t now) {
    if (draw->left >= 0 && pace_rest(&draw->pace, draw_interval_log2(), passed_of(draw), now))
        draw_next(draw);
}

int64_t sample_bytes_left(const sample_draw_t *draw) {
    const uint64_t left = draw->left < 0 ? 0 : (uint64_t)draw->left;
    return (int64_t)(sample_is_paced(draw) ? hk_min(left, (UINT64_C(1) << draw->interval_log2) / LOOKS) : left);
}
