/* SPDX-License-Identifier: MIT
 *
 * registers.h: the four registers that a stack is unwound by, per architecture: where they come from, and what they are
 * called in unwind tables.
 *
 * Source: the psABI supplements for x86-64 and AArch64, "DWARF register number mapping"; the kernel's struct ucontext.
 */
#pragma once

#include "base/base.h"

#include <ucontext.h>

typedef struct sys_registers {
    uintptr_t pc, sp, fp; /* program counter, stack pointer, frame pointer */
    uintptr_t lr;         /* aarch64: the link register; x86-64 has none, and 0 here */
} sys_registers_t;

#if defined(__x86_64__)

enum { SYS_DWARF_SP = 7, SYS_DWARF_FP = 6, SYS_DWARF_RETURN = 16 };

/* A frame record (two words: the caller's frame pointer, the return address) is the highest part of its frame, so it
 * tells the caller's stack pointer as well. */
enum { SYS_RECORD_TELLS_SP = 1 };

/* Of the function that this is expanded in, at this place. */
HK_INLINE sys_registers_t sys_registers_here(void) {
    sys_registers_t r = {0};
    __asm__ volatile("lea 0f(%%rip), %0\n0:\tmov %%rsp, %1\n\tmov %%rbp, %2" : "=&r"(r.pc), "=&r"(r.sp), "=&r"(r.fp));
    return r;
}

HK_INLINE sys_registers_t sys_registers_of(const ucontext_t *context) {
    const greg_t *r = context->uc_mcontext.gregs;
    return (sys_registers_t){(uintptr_t)r[REG_RIP], (uintptr_t)r[REG_RSP], (uintptr_t)r[REG_RBP], 0};
}

/* The address in a word that a function returns to. */
HK_INLINE uintptr_t sys_code_address(uintptr_t word) { return word; }

#else

enum { SYS_DWARF_SP = 31, SYS_DWARF_FP = 29, SYS_DWARF_RETURN = 30 };
enum { SYS_RECORD_TELLS_SP = 0 };

HK_INLINE sys_registers_t sys_registers_here(void) {
    sys_registers_t r;
    __asm__ volatile("adr %0, 0f\n0:\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30"
                     : "=&r"(r.pc), "=&r"(r.sp), "=&r"(r.fp), "=&r"(r.lr));
    return r;
}

HK_INLINE sys_registers_t sys_registers_of(const ucontext_t *context) {
    const mcontext_t *m = &context->uc_mcontext;
    return (sys_registers_t){(uintptr_t)m->pc, (uintptr_t)m->sp, (uintptr_t)m->regs[29], (uintptr_t)m->regs[30]};
}

/* Without its signature: xpaclri, which processors without pointer authentication take for a hint. */
HK_INLINE uintptr_t sys_code_address(uintptr_t word) {
    register uintptr_t x30 __asm__("x30") = word;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

#endif
