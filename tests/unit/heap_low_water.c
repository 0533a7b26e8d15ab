/* SPDX-License-Identifier: MIT
 *
 * The low-water mark: what was never needed during the delay, no sooner than that, whatever came and went before.
 */
#include "check.h"
#include "heap/low_water.h"

enum { DELAY = 400, PART = DELAY / LOW_WATER_PARTS };

int main(void) {
    low_water_t w = {.part = SIZE_MAX};
    uint64_t now = 1000;
    /* A level that stays: nothing before the whole delay is over, then all of it. */
    for (; now < 1000 + DELAY - PART; now += PART / 4)
        CHECK_EQ(low_water_note(&w, 50, now, DELAY), 0);
    size_t got = 0;
    for (uint64_t end = now + 2 * PART; now < end; now += PART / 4)
        got = hk_max(got, low_water_note(&w, 50, now, DELAY));
    CHECK_EQ(got, 50);
    /* One dip holds back for as long as the delay. */
    CHECK(low_water_note(&w, 7, now, DELAY) <= 50);
    now += PART / 4;
    got = 0;
    for (uint64_t end = now + DELAY - PART; now < end; now += PART / 4)
        got = hk_max(got, low_water_note(&w, 90, now, DELAY));
    CHECK(got <= 7);
    for (uint64_t end = now + 3 * PART; now < end; now += PART / 4)
        got = hk_max(got, low_water_note(&w, 90, now, DELAY));
    CHECK_EQ(got, 90);
    /* No delay: what was there at the last call but few. */
    for (unsigned i = 0; i < LOW_WATER_PARTS; i++)
        got = low_water_note(&w, 30, now += DELAY, 0);
    CHECK_EQ(got, 30);
    return CHECK_PASS;
}
