/* SPDX-License-Identifier: MIT
 *
 * steps.h: a function that is called after each instruction of the calling thread, by the processor's trap flag.
 */
#ifndef HK_TEST_STEPS_H
#define HK_TEST_STEPS_H

#include "base/base.h"
#include "check.h"

#include <signal.h>
#include <ucontext.h>

/* What is looked at. A check build has more instructions for the same stores, and none of its own among them. */
enum { STEPS_EACH = HK_CHECK ? 3 : 1 };

#if defined(__x86_64__)
static inline void steps_begin(void) {
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushf\n\torq $0x100, (%%rsp)\n\tpopf\n\tlea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}
static inline void steps_end(void) {
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushf\n\tandq $~0x100, (%%rsp)\n\tpopf\n\tlea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}
/* In the handler: there are no more steps. */
static inline void steps_leave(void *context) { ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100LL; }
#else
static inline void steps_begin(void) {}
static inline void steps_end(void) {}
static inline void steps_leave(void *context) { (void)context; }
#endif

/* Skips the test where that cannot be. */
static inline void steps_init(void (*handler)(int, siginfo_t *, void *)) {
    if (!HK_X86_64)
        test_skip("only x86-64 stops after each instruction for a process by itself");
    if (CHECK_INSTRUMENTED)
        test_skip("a sanitizer's own instructions would be stopped at too");
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_NODEFER | SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
}

#endif
