/* SPDX-License-Identifier: MIT */
#include "sys/signal_mask.h"

#include "sys/confined.h"
#include "sys/raw_call.h"

static long signal_mask(int how, uint64_t mask, uint64_t *before) {
    return sys_call4(SYS_rt_sigprocmask, how, (long)&mask, (long)before, sizeof mask);
}

/* In a passage, which sys_signals_release ends when this is true. */
bool sys_signals_hold(uint64_t set, bool also_confined, uint64_t *before) {
    if (also_confined)
        sys_passage_begin_to_fork();
    else if (!sys_passage_begin())
        return false;
    if (!sys_failed(signal_mask(SIG_BLOCK, set, before)))
        return true;
    sys_passage_end();
    return false;
}

void sys_signals_release(uint64_t before) {
    (void)signal_mask(SIG_SETMASK, before, NULL);
    sys_passage_end();
}
