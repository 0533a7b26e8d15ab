/* SPDX-License-Identifier: MIT
 *
 * clock.c: the clock, read past libc: a library that stands before libc's clock_gettime to lie about the time
 * (libfaketime) uses thread-local storage, which the helper thread has not, and memory goes back by the kernel's time.
 * The function that the kernel puts into every process (vdso(7)) answers without a system call.
 */
#include "sys/clock.h"

#include "sys/raw_call.h"
#include "sys/symbols.h"

#include <time.h>

typedef int clock_read_t(clockid_t clock, struct timespec *now);

static int clock_by_call(clockid_t clock, struct timespec *now) {
    return (int)sys_call2(SYS_clock_gettime, clock, (long)now);
}

/* Relaxed: both functions give one answer. */
static clock_read_t *_Atomic clock_read = clock_by_call;

/* The name of the function on x86-64, and on aarch64. */
__attribute__((constructor)) static void find_clock(void) {
    void *found = symbol_of_kernel("__vdso_clock_gettime");
    if (found == NULL)
        found = symbol_of_kernel("__kernel_clock_gettime");
    if (found != NULL)
        atomic_store_explicit(&clock_read, (clock_read_t *)(uintptr_t)found, memory_order_relaxed);
}

static uint64_t read_ns(clockid_t clock) {
    struct timespec now = {0};
    (void)atomic_load_explicit(&clock_read, memory_order_relaxed)(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t sys_now_ms(void) { return read_ns(CLOCK_MONOTONIC_COARSE) / 1000000; }

bool sys_is_recent(const _Atomic uint64_t *noted_ms) {
    uint64_t noted = atomic_load_explicit(noted_ms, memory_order_relaxed);
    return noted != 0 && sys_now_ms() - noted < 1000;
}

uint64_t sys_now_ns(void) { return read_ns(CLOCK_MONOTONIC); }

uint64_t sys_now_us(void) { return sys_now_ns() / 1000; }

uint64_t sys_unix_ns(void) { return read_ns(CLOCK_REALTIME); }
