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
    long full = test_figure_of("/proc/self/status", "VmRSS:");
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    long now = full;
    for (unsigned ms = 0; ms < WAIT_MS && full - now < (BLOCKS - 16) * 1024; ms += 50) {
        test_sleep_us(50000);
        now = test_figure_of("/proc/self/status", "VmRSS:");
    }
    test_say("%ld KiB with the blocks, %ld after\n", full, now);
    CHECK(full - now >= (BLOCKS - 16) * 1024);
    CHECK_HEAP();
    return TEST_PASS;
}
