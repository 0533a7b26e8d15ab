/* SPDX-License-Identifier: MIT
 *
 * stats.h: statistics as text and as JSON; hak_stats_* of hakmem.h.
 */
#pragma once

#include "base/base.h"
#include "hakmem.h"

/* hak_stats_print; 0, or the errno value of what could not all be written. */
int stats_write(int fd, hak_format_t format);

/* Sums of all classes; block_size is 0. */
hak_class_stats_t stats_class_sum(const hak_stats_t *stats);

/* Notes what the program is called: the C library's name for it lies in memory that is the program's. Once, before
 * there are threads. */
void hk_stats_note_program(void);
