/* SPDX-License-Identifier: MIT
 *
 * rule.h: how to get from the registers at one code address to those of the caller, as 64 bits, and where that is
 * written: the call frame information (CFI) in .eh_frame, which compilers make for exceptions and the psABI asks for in
 * all code.
 *
 *   CFA      the caller's stack pointer: sp or fp and an offset, or the word at that place
 *   ret, fp  the return address and the caller's frame pointer: still in their register, or in the stack at an offset
 *            from the CFA, sp or fp
 *
 * RULE-1  The reading ends: a table is searched by halves, and at most RULE_BYTES_MAX of a program of CFI are run.
 * RULE-2  What does not fit, or is said in another way, is UNWIND_RULE_UNSUPPORTED. Nothing is guessed.
 *
 * Source: DWARF 5, 6.4; Linux Standard Base, "Exception Frames".
 */
#pragma once

#include "base/base.h"
#include "unwind/module.h"

typedef enum unwind_rule_kind {
    UNWIND_RULE_NONE, /* not known; so a rule of all zeros is none */
    UNWIND_RULE_FRAME,
    UNWIND_RULE_OUTERMOST,   /* the first function of a thread, as its CFI says */
    UNWIND_RULE_NOT_COVERED, /* the module has no CFI for this address */
    UNWIND_RULE_UNSUPPORTED,
} unwind_rule_kind_t;

typedef enum unwind_place {
    UNWIND_IN_REGISTER,
    UNWIND_AT_CFA, /* in the stack, at an offset from the CFA */
    UNWIND_AT_SP,
    UNWIND_AT_FP,
    UNWIND_LOST, /* said in a way that we do not support */
} unwind_place_t;

/* Offsets are kept as they are from the least that fits: bytes from -CFA_LEAST, words of 8 bytes from -WORDS_LEAST. */
enum { UNWIND_CFA_LEAST = 1 << 21, UNWIND_WORDS_LEAST = 1 << 14 };

typedef struct unwind_rule {
    uint64_t kind : 3;         /* unwind_rule_kind_t; what follows is there for a frame */
    uint64_t cfa_on_fp : 1;    /* from fp, not from sp */
    uint64_t cfa_in_word : 1;  /* it is the word at that place */
    uint64_t is_signal : 1;    /* the caller was interrupted: it has not called */
    uint64_t return_place : 3; /* unwind_place_t */
    uint64_t fp_place : 3;
    uint64_t cfa_offset : 22;
    uint64_t return_words : 15;
    uint64_t fp_words : 15;
} unwind_rule_t;
_Static_assert(sizeof(unwind_rule_t) == sizeof(uint64_t), "half an entry of the cache");

enum { RULE_BYTES_MAX = 256 * 1024 };

/* Of a module that has been opened. */
unwind_rule_t unwind_rule_of(unwind_module_t *module, uintptr_t pc);
