/* SPDX-License-Identifier: MIT
 *
 * A long soak: cycles of growing, churning, shrinking and resting, with threads that come and go, forks, and blocks
 * that stay for many cycles. After each rest the heap is whole and resident memory is near what is live: nothing leaks
 * and nothing fragments without bound, however long it runs.
 *
 *   soak [SECONDS]
 */
#include "busy.h"

#include <sys/wait.h>

enum { THREADS = 4, STAYING = 2000, REST_MS = 2500 };

static busy_block_t *staying[STAYING];

static void *grow_and_shrink(void *argument) {
    enum { BLOCKS = 40000 };
    uint64_t random = (uintptr_t)argument;
    size_t max = (size_t)64 << test_random_below(&random, 12);
    busy_block_t **blocks = (busy_block_t **)test_pages(BLOCKS * sizeof *blocks);
    size_t bytes = 0, count = 0;
    while (count < BLOCKS && bytes < 100 * TEST_MIB) {
        blocks[count] = busy_make(&random, max);
        bytes += blocks[count++]->size;
        if (count % 64 == 0)
            busy_trade(&random, max);
    }
    for (size_t i = 0; i < count; i++) { /* in random order */
        size_t other = test_random_below(&random, count);
        busy_block_t *b = blocks[i];
        blocks[i] = blocks[other];
        blocks[other] = b;
    }
    for (size_t i = 0; i < count; i++)
        busy_drop(blocks[i]);
    munmap((void *)blocks, BLOCKS * sizeof *blocks);
    return NULL;
}

static void cycle(uint64_t *random) {
    pthread_t threads[THREADS];
    for (unsigned t = 0; t < THREADS; t++)
        threads[t] = test_thread(grow_and_shrink, (void *)(uintptr_t)test_random(random));
    for (unsigned i = 0; i < STAYING / 10; i++) {
        size_t slot = test_random_below(random, STAYING);
        busy_drop(staying[slot]);
        staying[slot] = busy_make(random, 3000);
    }
    pid_t pid = fork();
    if (pid == 0) {
        test_alarm(60);
        grow_and_shrink((void *)(uintptr_t)test_random(random));
        _exit(0);
    }
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    for (unsigned t = 0; t < THREADS; t++)
        test_join(threads[t]);
}

int main(int argc, char **argv) {
    test_require_hakmem();
    uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 600;
    uint64_t random = test_now_ns(), end = test_now_ns() + seconds * 1000000000u;
    test_say("soak: seed %llu\n", (unsigned long long)random);
    long first_kib = 0;
    for (unsigned i = 1; test_now_ns() < end; i++) {
        cycle(&random);
        busy_clear();
        test_sleep_us(REST_MS * 1000);
        CHECK_HEAP();
        long kib = test_rss_kib();
        test_say("cycle %u: resident %ld KiB at rest\n", i, kib);
        if (i == 3)
            first_kib = kib;
        CHECK(i <= 3 || kib < first_kib * 2 + 32768);
    }
    return TEST_PASS;
}
