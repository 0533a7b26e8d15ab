/* SPDX-License-Identifier: MIT */
#include "sys/signal_mask.h"

#include "sys/confined.h"
#include "sys/raw_call.h"

#include <signal.h>

static long signal_mask(int how, uint64_t mask, uint64_t *before) {
    return sys_call4(SYS_rt_sigprocmask, how, (long)&mask, (long)before, sizeof mask);
}

/* In a passage, which sys_signals_release ends when this is true. */
static bool hold(uint64_t mask, uint64_t *before) {
    if (!sys_failed(signal_mask(SIG_BLOCK, mask, before)))
        return true;
    sys_passage_end();
    return false;
}

bool sys_signals_hold_set(uint64_t mask, uint64_t *before) { return sys_passage_begin() && hold(mask, before); }

bool sys_signals_hold_to_write(uint64_t mask, uint64_t *before) {
    sys_passage_begin_to_fork();
    return hold(mask, before);
}

bool sys_signals_hold(sys_signals_t which, uint64_t *before) {
    const uint64_t faults = SYS_SIGNAL_BIT(SIGSEGV) | SYS_SIGNAL_BIT(SIGBUS) | SYS_SIGNAL_BIT(SIGFPE) |
                            SYS_SIGNAL_BIT(SIGILL) | SYS_SIGNAL_BIT(SIGTRAP) | SYS_SIGNAL_BIT(SIGSYS) |
                            SYS_SIGNAL_BIT(SIGABRT);
    if (which == SYS_SIGNALS_SENT_TO_FORK)
        sys_passage_begin_to_fork();
    else if (!sys_passage_begin())
        return false;
    return hold(which == SYS_SIGNALS_ALL ? ~UINT64_C(0) : ~faults, before);
}

void sys_signals_release(uint64_t before) {
    (void)signal_mask(SIG_SETMASK, before, NULL);
    sys_passage_end();
}
