/* SPDX-License-Identifier: MIT
 *
 * unwind.h: who called whom: the return addresses on the calling thread's stack, from the innermost frame to the
 * outermost.
 *
 *   unwind_start_t start = {.at = sys_registers_here(), .caller = caller};
 *   unwind_end_t why;
 *   unsigned count = unwind_capture(&start, pcs, capacity, &why);
 *
 * Each step takes the registers of a frame and finds those of its caller:
 *
 *   pc -> module (module.h) -> rule (rule.h), by a cache of rules -> two words of the stack
 *
 * Code without CFI, as that made at run time is, is left by its frame record (frame pointer, return address), if that
 * is plausible: a *guess*. From there on the return addresses may be no return addresses. On aarch64 a record does not
 * tell the caller's stack pointer; so the records are followed to the end.
 *
 * It allocates nothing, takes no lock, reads no thread-local storage, calls nothing that does, and may run in a signal
 * handler, in the child of a fork, in a static program and in a confined process. It needs 2 KiB of stack. The cache
 * has 256 rules, and 4,096 once some had to go: then it is mapped; where it cannot be, it stays as it is.
 *
 * UNWIND-1  Of the stack only readable pages are read: from that of the first sp upwards without a gap, each asked for
 *           once, or those of the caller's own frame. Each frame is above the last, aligned, and at most
 *           UNWIND_FRAME_MAX away.
 * UNWIND-2  Of modules only tables are read, and only (MODULE-3) of the program, of the C library and of modules with a
 *           frame on this stack: those that a return address is in, as long as nothing was guessed, and behind a guess
 *           those that had one before it. What is left: on a stack that was overwritten a wrong return address may lead
 *           into a library that another thread unloads in the same microsecond.
 * UNWIND-3  An entry of the cache is two words that many threads read and write without order: the rule, and the key
 *           XOR the rule. A reader takes the rule only when the two give its key back. Halves of two entries give it by
 *           chance alone, one in 2^64; no order of stores or loads matters, on aarch64 neither. The key has the
 *           module's place and tables in it: what was learnt of a library that has gone does not serve for another one
 *           that came to its address.
 * UNWIND-4  `*why` is UNWIND_COMPLETE exactly when the outermost frame was reached; a stack is never silently short.
 */
#pragma once

#include "base/base.h"
#include "sys/registers.h"

typedef struct unwind_start {
    sys_registers_t at; /* sys_registers_here() in the function that captures, or those of a signal's context */
    /* A return address: frames before it are left out, if it is on the stack; 0: all are wanted, `at.pc` first. */
    uintptr_t caller;
} unwind_start_t;

typedef enum unwind_end {
    UNWIND_COMPLETE,
    UNWIND_FULL,          /* there are more frames than places */
    UNWIND_NO_RULE,       /* no CFI, and no plausible frame record */
    UNWIND_UNSUPPORTED,   /* CFI of a kind that rule.h does not support, or broken */
    UNWIND_OUT_OF_BOUNDS, /* the next frame would not be in the stack */
    UNWIND_SIGNAL, /* unwind_follow alone: a signal has interrupted the thread, and its handler has not returned */
} unwind_end_t;

enum { UNWIND_FRAME_MAX = 1 << 20 };

/* Returns how many of `pcs` it has filled, at most `capacity`. */
unsigned unwind_capture(const unwind_start_t *start, uintptr_t *pcs, unsigned capacity, unwind_end_t *why);

/* The calling thread's stack, to its end or to the first frame of a signal's. */
unwind_end_t unwind_follow(void);

/* Why a stack ends, in a few words for a report. */
const char *unwind_end_text(unwind_end_t why);
