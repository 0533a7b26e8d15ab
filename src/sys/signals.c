/* SPDX-License-Identifier: MIT */
#include "sys/signals.h"

#include "sys/raw_call.h"

#include <errno.h>

int sys_signal_catch(int number, void (*handler)(int, siginfo_t *, void *), struct sigaction *previous) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    (void)sigemptyset(&action.sa_mask);
    return sigaction(number, &action, previous) == 0 ? 0 : errno;
}

void sys_signal_ask(int number, struct sigaction *present) {
    *present = (struct sigaction){0};
    (void)sigaction(number, NULL, present);
}

bool sys_signal_comes_again(int number, const siginfo_t *info) {
    return info->si_code > 0 && number != SIGABRT && !(number == SIGBUS && info->si_code == BUS_MCEERR_AO) &&
           !(number == SIGSEGV && info->si_code == SYS_CODE_TAG_LATER);
}

void sys_signal_hand_back(int number, const siginfo_t *info, const struct sigaction *previous) {
    (void)sigaction(number, previous, NULL);
    if (sys_signal_comes_again(number, info))
        return;
    long process = sys_call1(SYS_getpid, 0);
    long thread = sys_call1(SYS_gettid, 0);
    (void)sys_call4(SYS_rt_tgsigqueueinfo, process, thread, number, (long)info);
}

bool sys_signal_stack(void *stack, size_t size) {
    stack_t present;
    if (sigaltstack(NULL, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0)
        return false;
    stack_t wanted = {.ss_sp = stack, .ss_size = size};
    return sigaltstack(&wanted, NULL) == 0;
}
