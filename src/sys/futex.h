/* SPDX-License-Identifier: MIT
 *
 * futex.h: waiting for a word of memory.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

/* futex(2), private. Wait returns when woken, when *word != expected, or after timeout_ms (UINT32_MAX: never). */
void sys_futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint32_t timeout_ms);
/* sys_futex_wait for a word that the kernel clears and wakes: it does so by the shared kind of futex. */
void sys_futex_wait_shared(const _Atomic uint32_t *word, uint32_t expected, uint32_t timeout_ms);
void sys_futex_wake(const _Atomic uint32_t *word, int count);
void sys_cpu_relax(void);
