/* SPDX-License-Identifier: MIT
 *
 * clock.h: the kernel's clocks, read without a system call where it answers so.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

uint64_t sys_now_ms(void);  /* CLOCK_MONOTONIC_COARSE */
uint64_t sys_now_us(void);  /* CLOCK_MONOTONIC */
uint64_t sys_now_ns(void);  /* CLOCK_MONOTONIC */
uint64_t sys_unix_ns(void); /* CLOCK_REALTIME */

/* Whether it is less than a second since `*noted_ms`, by sys_now_ms; 0 there is never. Relaxed: any thread's note. */
bool sys_is_recent(const _Atomic uint64_t *noted_ms);

/* From `since_ms` to `now_ms`, of which 32 bits count; 0 when `since_ms` is up to a minute later, as when another
 * thread has looked at the clock since. */
HK_INLINE uint32_t sys_age_ms(uint64_t now_ms, uint32_t since_ms) {
    uint32_t age = (uint32_t)now_ms - since_ms;
    return age >= UINT32_MAX - 60000 ? 0 : age;
}
