/* SPDX-License-Identifier: MIT
 *
 * signal_mask.h: holding signals back.
 */
#pragma once

#include "base/base.h"

/* Of a set of signals, as the kernel has it. */
#define SYS_SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))

/* Holds back signals of the calling thread: all, or all but those of its own faults. What it held back before is in
 * `*before`. False in a confined process, where the system call may be forbidden: then there is nothing to release.
 * For a fork they are held back there too, as libc's fork does: who may make that call may make this one. */
typedef enum sys_signals { SYS_SIGNALS_ALL, SYS_SIGNALS_SENT, SYS_SIGNALS_SENT_TO_FORK } sys_signals_t;
bool sys_signals_hold(sys_signals_t which, uint64_t *before);
void sys_signals_release(uint64_t before);

/* Holds back the signals of `set`, as sys_signals_hold does, whose result and `*before` it has. To write, they are held
 * back in a confined process too. */
bool sys_signals_hold_set(uint64_t set, uint64_t *before);
bool sys_signals_hold_to_write(uint64_t set, uint64_t *before);
