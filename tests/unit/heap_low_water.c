/* SPDX-License-Identifier: MIT
 *
 * What is given back is what nobody needed all through the delay: a clock by hand, no sleep.
 */
#include "check.h"
#include "heap/low_water.h"

enum { DELAY = 400, PART = DELAY / LOW_WATER_PARTS };

/* The level stays: given back after the delay and not before. */
static void rests(void) {
    low_water_t w = {.next = 0};
    uint64_t now = 1000;
    CHECK_EQ(low_water_note(&w, 0, now, DELAY), 0);
    for (unsigned i = 1; i < LOW_WATER_PARTS; i++)
        CHECK_EQ(low_water_note(&w, 500, now += PART, DELAY), 0);
    CHECK_EQ(low_water_note(&w, 500, now += PART, DELAY), 500);
}

/* A burst every 100 ms takes all but 70: only those go. */
static void comes_back(void) {
    low_water_t w = {.next = 0};
    for (uint64_t now = 0; now < 10 * DELAY; now += 25)
        CHECK(low_water_note(&w, now % 100 == 0 ? 70 : 500, now, DELAY) <= 70);
}

/* Calls between two ends of a part count, and do nothing. */
static void dips(void) {
    low_water_t w = {.next = 0};
    uint64_t now = 1000;
    for (unsigned i = 0; i < 8; i++)
        (void)low_water_note(&w, 500, now += PART, DELAY);
    CHECK_EQ(low_water_note(&w, 3, now + 1, DELAY), 0);
    CHECK_EQ(low_water_note(&w, 500, now += PART, DELAY), 3);
}

int main(void) {
    rests();
    comes_back();
    dips();
    return CHECK_PASS;
}
