/* SPDX-License-Identifier: MIT
 *
 * jump.h: a function of two arguments that ends in a jump, in every build. Compilers make a jump of a call at the end
 * of a function when they optimise, and some when they are told to (musttail), but not all that hakmem is built with.
 */
#pragma once

#include "base/base.h"

#include <stdint.h>

/* Where to jump to, and the second argument there. Returned in two registers. */
typedef struct jump {
    uintptr_t to;
    uintptr_t second;
} jump_t;
_Static_assert(sizeof(jump_t) == 2 * sizeof(uintptr_t), "what is larger is returned in memory");

/* Defines the exported function `name`, which calls `jump_t find(first, second)` and then jumps: `to` finds its
 * caller's return address and first argument. Both names as text; `find` is not static, hidden, and `used`. The first
 * instruction is where an indirect call may land (CET, BTI), and nothing elsewhere. */
#if defined(__x86_64__)
#define SYS_DEFINE_JUMP(name, find)                                                                                    \
    __asm__(".pushsection .text\n"                                                                                     \
            ".balign 16\n"                                                                                             \
            ".globl " name "\n"                                                                                        \
            ".type " name ", @function\n" name ":\n"                                                                   \
            ".cfi_startproc\n"                                                                                         \
            "endbr64\n"                                                                                                \
            "pushq %rdi\n"                                                                                             \
            ".cfi_adjust_cfa_offset 8\n"                                                                               \
            "call " find "\n"                                                                                          \
            "popq %rdi\n"                                                                                              \
            ".cfi_adjust_cfa_offset -8\n"                                                                              \
            "movq %rdx, %rsi\n"                                                                                        \
            "jmpq *%rax\n"                                                                                             \
            ".cfi_endproc\n"                                                                                           \
            ".size " name ", . - " name "\n"                                                                           \
            ".popsection\n")
#elif defined(__aarch64__)
#define SYS_DEFINE_JUMP(name, find)                                                                                    \
    __asm__(".pushsection .text\n"                                                                                     \
            ".balign 16\n"                                                                                             \
            ".globl " name "\n"                                                                                        \
            ".type " name ", %function\n" name ":\n"                                                                   \
            ".cfi_startproc\n"                                                                                         \
            "hint #34\n" /* bti c */                                                                                   \
            "stp x0, x30, [sp, #-16]!\n"                                                                               \
            ".cfi_def_cfa_offset 16\n"                                                                                 \
            ".cfi_offset 30, -8\n"                                                                                     \
            "bl " find "\n"                                                                                            \
            "mov x16, x0\n" /* a jump by x16 lands where a call may */                                                 \
            "ldp x0, x30, [sp], #16\n"                                                                                 \
            ".cfi_restore 30\n"                                                                                        \
            ".cfi_def_cfa_offset 0\n"                                                                                  \
            "br x16\n"                                                                                                 \
            ".cfi_endproc\n"                                                                                           \
            ".size " name ", . - " name "\n"                                                                           \
            ".popsection\n")
#endif
