/* SPDX-License-Identifier: MIT
 *
 * stack.h: a thread and its stack, kept and shown, a line for each frame, as addr2line takes it:
 *
 *   hakmem:   allocated by thread 4711:
 *   hakmem:     from 0x55d0c1a2b2c0 (/usr/bin/program+0x12c0)
 *   hakmem:     from 0x7f12a0027249 (/usr/lib/libc.so.6+0x27249)
 *   hakmem:     [more frames follow]
 *
 * The last line says why a stack ends that is not whole. It allocates nothing, takes no lock, and may be called in a
 * signal handler.
 */
#pragma once

#include "base/base.h"
#include "sys/registers.h"
#include "unwind/unwind.h"

enum { STACK_FRAMES_MAX = 16 };

typedef struct stack_trace {
    uint32_t thread;
    uint32_t count; /* 0: it is not known */
    unwind_end_t why;
    uintptr_t pcs[STACK_FRAMES_MAX];
} stack_trace_t;

/* Of the calling thread: what was called by `caller`, a return address, is left out, if that is on the stack. */
void stack_trace_here(stack_trace_t *trace, const void *caller);

/* "<what> by thread N:" and its frames; nothing when it is not known. */
void stack_show_trace(const char *what, const stack_trace_t *trace);

/* Of what a signal has interrupted, each line behind `prefix`. */
void stack_show_interrupted(const sys_registers_t *at, const char *prefix);
