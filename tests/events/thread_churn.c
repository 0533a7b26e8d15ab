/* SPDX-License-Identifier: MIT
 *
 * Twenty thousand threads made and ended one after another, some leaving blocks to the next: neither resident memory
 * nor address space may grow with the number of threads that ever were.
 */
#include "testing.h"

enum { THREADS = 20000, TOGETHER = 4, SETTLED = 2000 };

static void *inherited[TOGETHER];

static void *live_briefly(void *argument) {
    unsigned t = (unsigned)(uintptr_t)argument;
    void *blocks[64];
    free(inherited[t]);
    for (unsigned i = 0; i < 64; i++) {
        blocks[i] = malloc(8 + i * 61);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 3, 8 + i * 61);
    }
    for (unsigned i = 0; i < 64; i++)
        free(blocks[i]);
    inherited[t] = malloc(500 + t);
    return NULL;
}

int main(void) {
    test_require_hakmem();
    test_alarm(100);
    long early_kib = 0, early_size_kib = 0;
    for (unsigned i = 0; i < THREADS; i += TOGETHER) {
        pthread_t threads[TOGETHER];
        for (unsigned t = 0; t < TOGETHER; t++)
            threads[t] = test_thread(live_briefly, (void *)(uintptr_t)t);
        for (unsigned t = 0; t < TOGETHER; t++)
            test_join(threads[t]);
        if (i == SETTLED) {
            early_kib = test_rss_kib();
            early_size_kib = test_status_kib("VmSize:");
        }
    }
    long late_kib = test_rss_kib(), late_size_kib = test_status_kib("VmSize:");
    test_say("after %d threads %ld KiB resident, %ld mapped; after %d: %ld, %ld\n", SETTLED, early_kib, early_size_kib,
             THREADS, late_kib, late_size_kib);
    CHECK(late_kib < early_kib + 2048);
    CHECK(late_size_kib < early_size_kib + 65536);
    CHECK_HEAP();
    return TEST_PASS;
}
