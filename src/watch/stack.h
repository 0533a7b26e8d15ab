/* SPDX-License-Identifier: MIT
 *
 * stack.h: the stack below a report, a line for each frame, as addr2line takes it:
 *
 *   hakmem: double free of 0x7f... (64-byte block, free), called from 0x55d0c1a2b1a6 (/usr/bin/program+0x11a6)
 *   hakmem:   from 0x55d0c1a2b2c0 (/usr/bin/program+0x12c0)
 *   hakmem:   from 0x7f12a0027249 (/usr/lib/libc.so.6+0x27249)
 *   hakmem:   [more frames follow]
 *
 * The last line says why a stack ends that is not whole. At most STACK_FRAMES_MAX frames are shown, and of one process
 * the stacks of the first STACK_REPORTS_MAX misuses: with HAKMEM_ON_ERROR=report a program may make the same mistake a
 * million times.
 *
 * It allocates nothing, takes no lock, and may be called in a signal handler.
 */
#ifndef HK_STACK_H
#define HK_STACK_H

#include "base/base.h"
#include "sys/registers.h"
#include "unwind/unwind.h"

enum { STACK_FRAMES_MAX = 16, STACK_REPORTS_MAX = 8 };

/* Of a misuse whose report names `caller`: who called that. */
void stack_show_callers(const void *caller);

/* Of return addresses that were captured before. */
void stack_show(const uintptr_t *pcs, unsigned count, unwind_end_t why, const char *prefix);

/* Of what a signal has interrupted, each line behind `prefix`. */
void stack_show_interrupted(const sys_registers_t *at, const char *prefix);

#endif
