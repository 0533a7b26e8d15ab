/* SPDX-License-Identifier: MIT
 *
 * Threads end while their blocks live on. The blocks keep their contents, other threads free them, and new threads
 * reuse the memory: after many generations the heap is whole and no larger than a few of them. A thread may allocate in
 * key destructors alone: its heap is free again too.
 */
#include "testing.h"

enum { GENERATIONS = 60, THREADS = 8, BLOCKS = 1500, LATE_THREADS = 20 };

static void *blocks[THREADS][BLOCKS];
static size_t sizes[THREADS][BLOCKS];

static size_t size_of(unsigned t, unsigned i) { return 1 + (t * 7919 + i * 104729) % (i % 50 == 0 ? 60000 : 700); }

static void *leave_behind(void *argument) {
    unsigned t = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        sizes[t][i] = size_of(t, i);
        blocks[t][i] = malloc(sizes[t][i]);
        CHECK(blocks[t][i] != NULL);
        test_fill(blocks[t][i], sizes[t][i], t * BLOCKS + i);
    }
    return NULL;
}

static void *clear_away(void *argument) {
    unsigned t = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(test_holds(blocks[t][i], sizes[t][i], t * BLOCKS + i));
        free(blocks[t][i]);
    }
    return NULL;
}

static void in_threads(void *(*run)(void *)) {
    pthread_t threads[THREADS];
    for (unsigned t = 0; t < THREADS; t++)
        threads[t] = test_thread(run, (void *)(uintptr_t)t);
    for (unsigned t = 0; t < THREADS; t++)
        test_join(threads[t]);
}

static pthread_key_t late_key;
static uintptr_t late_round;

static void allocate_late(void *value) {
    uintptr_t round = (uintptr_t)value;
    if (round < late_round)
        CHECK(pthread_setspecific(late_key, (void *)(round + 1)) == 0);
    else
        free(test_opaque(malloc(40)));
}

static void *end_late(void *unused) {
    CHECK(pthread_setspecific(late_key, (void *)1) == 0);
    return unused;
}

static void allocates_late(uintptr_t round) {
    hak_stats_t stats;
    late_round = round;
    for (unsigned t = 0; t < LATE_THREADS; t++)
        test_join(test_thread(end_late, NULL));
    CHECK(test_stats(&stats) == 0);
    CHECK_SAY(stats.heaps_now == 1, "%u heaps (round %u)", (unsigned)stats.heaps_now, (unsigned)round);
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    free(test_opaque(malloc(1)));
    CHECK(pthread_key_create(&late_key, allocate_late) == 0);
    allocates_late(1);
    allocates_late(2);
    long early_kib = 0;
    for (unsigned g = 0; g < GENERATIONS; g++) {
        in_threads(leave_behind);
        if (g % 3 == 0)
            for (unsigned t = 0; t < THREADS; t++)
                clear_away((void *)(uintptr_t)t);
        else
            in_threads(clear_away);
        if (g == 5)
            early_kib = test_rss_kib();
        if (g % 10 == 0)
            CHECK_HEAP();
    }
    /* What was freed within the last half second may still be resident. */
    long late_kib = test_rss_kib();
    for (test_wait_t wait = test_wait_for(1500); late_kib >= 2 * early_kib + 8192 && test_wait_more(&wait);)
        late_kib = test_rss_kib();
    test_say("resident after 6 generations %ld KiB, after %d %ld KiB\n", early_kib, GENERATIONS, late_kib);
    CHECK(late_kib < 2 * early_kib + 8192);
    CHECK_HEAP();
    return TEST_PASS;
}
