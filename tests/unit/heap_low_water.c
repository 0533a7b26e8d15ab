/* SPDX-License-Identifier: MIT
 *
 * The low-water mark: what was never needed during the delay, no sooner than that, whatever came and went before. A
 * load that comes back within the delay keeps what it takes and something to spare, for as long as it comes.
 */
#include "check.h"
#include "upkeep/low_water.h"

enum { DELAY = 400, PART = DELAY / LOW_WATER_PARTS };

static size_t note(low_water_t *w, size_t level, uint64_t now) { return low_water_note(w, level, level, now, DELAY); }

static void levels(void) {
    low_water_t w = {.part = {SIZE_MAX, 0}};
    uint64_t now = 1000;
    /* A level that stays: nothing before the whole delay is over, then all of it. */
    for (; now < 1000 + DELAY - PART; now += PART / 4)
        CHECK_EQ(note(&w, 50, now), 0);
    size_t got = 0;
    for (uint64_t end = now + 2 * PART; now < end; now += PART / 4)
        got = hk_max(got, note(&w, 50, now));
    CHECK_EQ(got, 50);
    /* One dip holds back for as long as the delay. */
    CHECK(note(&w, 7, now) <= 50);
    now += PART / 4;
    got = 0;
    for (uint64_t end = now + DELAY - PART; now < end; now += PART / 4)
        got = hk_max(got, note(&w, 90, now));
    CHECK(got <= 7);
    for (uint64_t end = now + 3 * PART; now < end; now += PART / 4)
        got = hk_max(got, note(&w, 90, now));
    CHECK_EQ(got, 90);
    /* No delay: what was there at the last call but few. */
    for (unsigned i = 0; i < LOW_WATER_PARTS; i++)
        got = low_water_note(&w, 30, 30, now += DELAY, 0);
    CHECK_EQ(got, 30);
}

/* Bursts at 10 Hz take all but some of 600, between 540 and 595; looked at every PART / 2, never in the midst of
 * one. */
static void bursts(void) {
    low_water_t w = {.part = {SIZE_MAX, 0}};
    uint64_t now = 1000;
    for (unsigned i = 0; i < 200; i++, now += PART / 2)
        CHECK_EQ(low_water_note(&w, i % 7 == 0 ? 5 : 60, 600, now, DELAY), 0);
    /* They come no more: all of it goes, after the delay and not before. */
    uint64_t last = now;
    size_t got = 0;
    for (; now < last + DELAY - PART; now += PART / 2)
        CHECK_EQ(note(&w, 600, now), 0);
    for (; now < last + DELAY + 2 * PART; now += PART / 2)
        got = hk_max(got, note(&w, 600, now));
    CHECK_EQ(got, 600);
}

/* What is far more than a load that goes on ever needs goes back meanwhile, but for an eighth of its swing. */
static void far_too_much(void) {
    low_water_t w = {.part = {SIZE_MAX, 0}};
    uint64_t now = 1000;
    size_t got = 0;
    for (unsigned i = 0; i < 20; i++, now += PART / 2)
        got = hk_max(got, low_water_note(&w, 1000, 1080, now, DELAY));
    CHECK_EQ(got, 990);
}

int main(void) {
    levels();
    bursts();
    far_too_much();
    return CHECK_PASS;
}
