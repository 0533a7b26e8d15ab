/* SPDX-License-Identifier: MIT
 *
 * A profile changes nothing about ticks: they come after as many allocated bytes with it as without, whether samples
 * are many, few, or begin while the thread works; and what a thread has allocated is still known when another one has
 * made it look at its countdown. A thread that goes on with small blocks after long ones looks at it soon.
 */
#include "front/calls.h"
#include "front/front.h"
#include "heap_places.h"
#include "slow/tick.h"

enum { SIZE = 1000, COUNT = 2000000, MOST_APART = 2, LONG = 1 << 20, LONG_COUNT = 20 };

static heap_t *h;

/* Ticks while the thread allocates: each notes how many blocks were. */
static unsigned ticks_of(unsigned count) {
    const heap_class_stats_t *stats = &h->class_stats[class_of(SIZE)];
    unsigned ticks = 0;
    for (unsigned i = 0; i < count; i++) {
        const uint64_t before = stats->seen_pops;
        front_free(front_malloc(SIZE));
        ticks += stats->seen_pops != before;
    }
    return ticks;
}

static void check_ticks(const char *what, unsigned ticks, unsigned expected) {
    if (ticks + MOST_APART < expected || ticks > expected + MOST_APART)
        test_fail("%s: %u ticks, not %u", what, ticks, expected);
}

static void hurry_keeps_count(void) {
    heap_tick(h);
    heap_run_out(h);
    front_free(front_malloc(SIZE)); /* the countdown is set anew */
    const uint64_t before = h->tick_charged + (uint64_t)(h->countdown_set - heap_countdown(h));
    heap_hurry_all();
    CHECK(hk_read(h->front.countdown) < 0);
    heap_hurry_all(); /* once is enough */
    front_free(front_malloc(SIZE));
    CHECK(hk_read(h->front.countdown) >= 0);
    CHECK_EQ(h->tick_charged + (uint64_t)(h->countdown_set - heap_countdown(h)), before + SIZE);
}

/* Of long blocks a tick counts a 1,024th, so the next look may be far away: no further than what was allocated since
 * the last tick. */
static void small_after_long(void) {
    heap_tick(h);
    const uint64_t before = h->class_stats[class_of(SIZE)].seen_pops;
    for (unsigned i = 0; i < LONG_COUNT; i++)
        front_free(front_malloc(LONG));
    int64_t left = 2 * LONG * LONG_COUNT;
    CHECK(heap_countdown(h) <= left / 2);
    for (; left > 0; left -= SIZE)
        front_free(front_malloc(SIZE));
    CHECK(h->class_stats[class_of(SIZE)].seen_pops != before);
}

int main(void) {
    h = start_heap();
    small_after_long();
    (void)ticks_of(COUNT / 10);
    const unsigned expected = ticks_of(COUNT);
    CHECK(expected >= (uint64_t)SIZE * COUNT / HEAP_TICK_BYTES - MOST_APART);
    hurry_keeps_count();
    static const uint64_t intervals[] = {UINT64_C(1) << 40, UINT64_C(1) << 26, UINT64_C(1) << 19, UINT64_C(1) << 14};
    for (unsigned i = 0; i < sizeof intervals / sizeof intervals[0]; i++) {
        sample_start(intervals[i], SAMPLE_FOR_PROGRAM);
        heap_hurry_all();
        check_ticks("with a profile", ticks_of(COUNT), expected);
        sample_stop();
    }
    check_ticks("after it", ticks_of(COUNT), expected);
    return CHECK_PASS;
}
