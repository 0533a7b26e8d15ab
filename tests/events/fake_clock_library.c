/* SPDX-License-Identifier: MIT
 *
 * Stands before libc's clocks, as libfaketime does, and uses thread-local storage, which is there for libc's threads
 * only.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static __thread volatile long calls __attribute__((tls_model("global-dynamic")));

int clock_gettime(clockid_t clock, struct timespec *now) {
    calls = calls + 1;
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_sec += 864000;
    return failed;
}
