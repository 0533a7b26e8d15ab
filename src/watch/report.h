/* SPDX-License-Identifier: MIT
 *
 * report.h: what follows the line of a misuse, for people. Only that line begins with "hakmem: " and no further space.
 *
 *   hakmem: overflow of 0x7f..40 (112-byte block, 100 bytes asked for, offset 100 overwritten), called from 0x55.. (..)
 *   hakmem:   block 0x7f..40 to 0x7f..b0, 112 bytes, in a slab of such blocks of heap 1, allocated, 100 bytes asked for
 *   hakmem:   first wrong byte 0x7f..a4, at offset 100 of the block:
 *   hakmem:     0x7f..a0: 61 61 61 61[00]ca ca ca
 *   hakmem:   called by thread 4711:
 *   hakmem:     from 0x55d0c1a2b1a6 (/usr/bin/program+0x11a6)
 *   hakmem:   allocated by thread 4711:
 *   hakmem:     from 0x55d0c1a2b0f3 (/usr/bin/program+0x10f3)
 *   hakmem:   docs/misuse.md says what this means; to report it, send it with what `hakmem doctor -- program` prints
 *
 * Lines of which nothing is known are left out. The stacks of allocation and free are known of guarded blocks, those of
 * a sampled one as sample/ended.h says. Of one process the first REPORTS_WHOLE_MAX misuses are told so: with
 * HAKMEM_ON_ERROR=report a program may make the same mistake a million times.
 *
 * It allocates nothing, waits for no lock, and may be called in a signal handler.
 */
#pragma once

#include "core/panic.h"
#include "watch/describe.h"
#include "watch/stack.h"

enum { REPORTS_WHOLE_MAX = 8 };

/* Where a report learns more of a block, from rooms above. Each false when it knows nothing. Stacks that it does not
 * know have no frames. */
typedef struct report_sources {
    bool (*describe)(const void *address, hk_description_t *out); /* lock-free */
    bool (*stacks)(const void *block, size_t *asked, stack_trace_t *allocated, stack_trace_t *freed);
} report_sources_t;

/* Reports are whole from now on. Once, before there are threads. */
void report_init(const report_sources_t *sources);

/* The lines of a misuse; `at` is where a signal has interrupted the program, NULL when the program called. */
void report_show(const hk_misuse_t *misuse, const sys_registers_t *at);
