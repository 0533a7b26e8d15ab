/* SPDX-License-Identifier: MIT
 *
 * stats_format.h: statistics as text and as JSON.
 */
#pragma once

#include "base/base.h"
#include "core/print.h"
#include "hakmem.h"

/* Sums of all classes; block_size is 0. */
hak_class_stats_t stats_class_sum(const hak_stats_t *stats);

void stats_write(hk_out_t *out, const hak_stats_t *stats, hak_format_t format);

/* Notes what the program is called: the C library's name for it lies in memory that is the program's. Once, before
 * there are threads. */
void hk_stats_note_program(void);
