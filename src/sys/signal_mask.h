/* SPDX-License-Identifier: MIT
 *
 * signal_mask.h: holding signals back.
 */
#pragma once

#include "base/base.h"

#include <signal.h>

/* Of a set of signals, as the kernel has it. */
#define SYS_SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))

#define SYS_SIGNALS_ALL (~UINT64_C(0))
/* All but those of a thread's own faults. */
#define SYS_SIGNALS_SENT                                                                                               \
    (~(SYS_SIGNAL_BIT(SIGSEGV) | SYS_SIGNAL_BIT(SIGBUS) | SYS_SIGNAL_BIT(SIGFPE) | SYS_SIGNAL_BIT(SIGILL) |            \
       SYS_SIGNAL_BIT(SIGTRAP) | SYS_SIGNAL_BIT(SIGSYS) | SYS_SIGNAL_BIT(SIGABRT)))

/* Holds back a set of signals of the calling thread. What it held back before is in `*before`. False in a confined
 * process, where the system call may be forbidden: then there is nothing to release. To write, and for a fork, they are
 * held back there too (`also_confined`), as libc's fork does: who may make that call may make this one. */
bool sys_signals_hold(uint64_t set, bool also_confined, uint64_t *before);
void sys_signals_release(uint64_t before);
