/* SPDX-License-Identifier: MIT
 *
 * crash.h: HAKMEM_CRASH_REPORT=1. When the program gets SIGSEGV, SIGBUS or SIGABRT, say on stderr what hakmem knows of
 * the faulting address, step aside, and let happen what would have happened anyway.
 *
 *   hakmem: crash: SIGSEGV at 0x7f12a0004010 (access is not permitted)
 *   hakmem: crash: 0x7f12a0004010 is in a free 64-byte block at 0x7f12a0004000, offset 16, 48 bytes before its end
 *   hakmem: crash:  from 0x55d0c1a2b1a6 (/usr/bin/program+0x11a6)
 *   hakmem: crash: hakmem 0.1.0, gcc 12.2.0, x86_64 linux, glibc 2.36, release build
 *
 * One report per signal: the handler first puts back what was installed before it, then has the signal come again, by
 * returning to the faulting instruction or by sending it anew with its original siginfo. So a previous handler, the
 * default action and the core dump see what they would have seen. A handler that the program installs later simply
 * wins.
 *
 * The first thread gets an alternate stack unless it has one, so that its stack overflow is reported too. The handler
 * needs about 4 KiB of stack besides the kernel's frame, takes no lock and allocates nothing.
 */
#pragma once

#include "base/base.h"
#include "watch/describe.h"

/* Installs the handlers if the option asks for them. `describe` is hk_describe of report/describe.h; it must be
 * lock-free. To be called once, by the first thread, after hk_options_init. */
void crash_report_init(bool (*describe)(const void *, hk_description_t *));
