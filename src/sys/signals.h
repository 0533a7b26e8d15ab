/* SPDX-License-Identifier: MIT
 *
 * signals.h: catching a signal, letting go of it again, and passing on the very signal that was caught. All but
 * sys_signal_stack may be called in a signal handler.
 */
#pragma once

#include "base/base.h"

#include <signal.h>

/* Installs `handler`, on the alternate stack where the thread has one. Returns 0 or an errno value. */
int sys_signal_catch(int number, void (*handler)(int, siginfo_t *, void *), struct sigaction *previous);

/* What is installed. */
void sys_signal_ask(int number, struct sigaction *present);

/* SEGV_MTEAERR, which has no address, and SEGV_MTESERR: sigaction(2). */
enum { SYS_CODE_TAG_LATER = 8, SYS_CODE_TAG = 9 };

/* Whether an instruction raised it and will raise it again: it was not sent by a process, and is not news of the
 * hardware or of an access that is over. */
bool sys_signal_comes_again(int number, const siginfo_t *info);

/* Installs `previous`, and has the signal come again to it: by the instruction that raised it, or sent to the calling
 * thread with all that `info` says (rt_tgsigqueueinfo). */
void sys_signal_hand_back(int number, const siginfo_t *info, const struct sigaction *previous);

/* Gives the calling thread `stack` to handle signals on, unless it has such a stack. True when it took it. */
bool sys_signal_stack(void *stack, size_t size);
