/* SPDX-License-Identifier: MIT
 *
 * Threads end while their blocks live on. The blocks keep their contents, other threads free them, and new threads
 * reuse the memory: after many generations the heap is whole and no larger than a few of them.
 */
#include "testing.h"

enum { GENERATIONS = 60, THREADS = 8, BLOCKS = 1500 };

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

int main(void) {
    test_require_hakmem();
    test_alarm(60);
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
