/* SPDX-License-Identifier: MIT */
#include "sys/futex.h"

#include "sys/kernel.h"
#include "sys/raw_call.h"

#include <time.h>

static void futex_wait(const _Atomic uint32_t *word, int operation, uint32_t expected, uint32_t timeout_ms) {
    struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    (void)sys_call4(SYS_futex, (long)word, operation, expected, timeout_ms == UINT32_MAX ? 0 : (long)&timeout);
}

void sys_futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint32_t timeout_ms) {
    futex_wait(word, FUTEX_WAIT_PRIVATE, expected, timeout_ms);
}

void sys_futex_wait_shared(const _Atomic uint32_t *word, uint32_t expected, uint32_t timeout_ms) {
    futex_wait(word, FUTEX_WAIT, expected, timeout_ms);
}

void sys_futex_wake(const _Atomic uint32_t *word, int count) {
    (void)sys_call3(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, count);
}

void sys_cpu_relax(void) {
#if defined(__x86_64__)
    __asm__ volatile("pause");
#else
    __asm__ volatile("isb");
#endif
}
