/* SPDX-License-Identifier: MIT
 *
 * Waiting on a word: not when it has changed already, not longer than asked for, until somebody wakes.
 */
#include "check.h"
#include "sys/sys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static _Atomic uint32_t word, arrived;

static uint64_t clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void *waits(void *unused) {
    (void)unused;
    atomic_store(&arrived, 1);
    while (atomic_load(&word) == 0)
        sys_futex_wait(&word, 0, UINT32_MAX);
    return NULL;
}

int main(void) {
    sys_futex_wait(&word, 1, UINT32_MAX);
    uint64_t before = clock_ms();
    sys_futex_wait(&word, 0, 30);
    CHECK(clock_ms() - before >= 29);
    sys_futex_wake(&word, 1); /* nobody there */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    while (atomic_load(&arrived) == 0)
        sys_cpu_relax();
    usleep(10000);
    atomic_store(&word, 1);
    sys_futex_wake(&word, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    return CHECK_PASS;
}
