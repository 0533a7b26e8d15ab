/* SPDX-License-Identifier: MIT
 *
 * probe.h: places for tracers from outside (USDT, as SystemTap's sys/sdt.h has them): a note in the file names each,
 * and a tracer puts a breakpoint there and raises its semaphore. The semaphore is in our memory, and the kernel counts
 * tracers in it; while it is 0 nobody calls the place.
 *
 * The notes are not part of the memory image. `readelf -n` shows them.
 */
#pragma once

#include "base/base.h"

#if defined(__x86_64__)
#define PROBE_ARGUMENTS_1 "8@%rdi"
#define PROBE_ARGUMENTS_2 "8@%rdi 8@%rsi"
#define PROBE_ARGUMENTS_3 "8@%rdi 8@%rsi 8@%rdx"
#define PROBE_TYPE        "@"
#elif defined(__aarch64__)
#define PROBE_ARGUMENTS_1 "8@x0"
#define PROBE_ARGUMENTS_2 "8@x0 8@x1"
#define PROBE_ARGUMENTS_3 "8@x0 8@x1 8@x2"
#define PROBE_TYPE        "%"
#endif

/* At file scope: a hidden function `function` of `count` arguments of 64 bits, and its `function`_semaphore. The place
 * is its first instruction, where the arguments are in the registers of the call: some readers do not read the note's.
 * All but `count` are texts. */
#define SYS_DEFINE_PROBE(provider, name, function, count)                                                              \
    __asm__(".pushsection .text\n"                                                                                     \
            ".balign 16\n"                                                                                             \
            ".globl " function "\n"                                                                                    \
            ".hidden " function "\n"                                                                                   \
            ".type " function ", " PROBE_TYPE "function\n" function ":\n"                                              \
            ".cfi_startproc\n"                                                                                         \
            "nop\n"                                                                                                    \
            "ret\n"                                                                                                    \
            ".cfi_endproc\n"                                                                                           \
            ".size " function ", . - " function "\n"                                                                   \
            ".popsection\n"                                                                                            \
            ".pushsection .probes,\"aw\"," PROBE_TYPE "progbits\n"                                                     \
            ".balign 2\n"                                                                                              \
            ".globl " function "_semaphore\n"                                                                          \
            ".hidden " function "_semaphore\n"                                                                         \
            ".type " function "_semaphore, " PROBE_TYPE "object\n" function "_semaphore:\n"                            \
            ".zero 2\n"                                                                                                \
            ".size " function "_semaphore, 2\n"                                                                        \
            ".popsection\n"                                                                                            \
            ".pushsection .note.stapsdt,\"\"," PROBE_TYPE "note\n"                                                     \
            ".balign 4\n"                                                                                              \
            ".4byte 2f - 1f, 4f - 3f, 3\n"                                                                             \
            "1: .asciz \"stapsdt\"\n"                                                                                  \
            "2: .balign 4\n"                                                                                           \
            "3: .8byte " function ", _.stapsdt.base, " function "_semaphore\n"                                         \
            ".asciz \"" provider "\"\n"                                                                                \
            ".asciz \"" name "\"\n"                                                                                    \
            ".asciz \"" PROBE_ARGUMENTS_##count "\"\n"                                                                 \
                                                "4: .balign 4\n"                                                       \
                                                ".popsection\n"                                                        \
                                                ".ifndef _.stapsdt.base\n"                                             \
                                                ".pushsection .stapsdt.base,\"aG\"," PROBE_TYPE                        \
                                                "progbits,.stapsdt.base,comdat\n"                                      \
                                                ".weak _.stapsdt.base\n"                                               \
                                                ".hidden _.stapsdt.base\n"                                             \
                                                "_.stapsdt.base: .space 1\n"                                           \
                                                ".size _.stapsdt.base, 1\n"                                            \
                                                ".popsection\n"                                                        \
                                                ".endif\n")

/* Whether somebody traces it. The kernel writes the semaphore. */
#define SYS_PROBE_IS_WANTED(function) hk_unlikely(function##_semaphore != 0)
