/* SPDX-License-Identifier: MIT
 *
 * With a library that lies about the time before libc: freed memory goes back all the same, by the kernel's clock.
 */
#include "testing.h"

#include <sys/syscall.h>

enum { BLOCKS = 64, WAIT_MS = 5000 };

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    struct timespec told, real;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &told) == 0 && syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &real) == 0);
    CHECK_SAY(told.tv_sec - real.tv_sec > 1000, "%s", "the library that lies is not there");

    static char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(TEST_MIB);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, TEST_MIB);
    }
    long full = test_rss_kib();
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    long now = full;
    for (test_wait_t wait = test_wait_for(WAIT_MS); full - now < (BLOCKS - 16) * 1024 && test_wait_more(&wait);)
        now = test_rss_kib();
    test_say("%ld KiB with the blocks, %ld after\n", full, now);
    CHECK(full - now >= (BLOCKS - 16) * 1024);
    CHECK_HEAP();
    return TEST_PASS;
}
