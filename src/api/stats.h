/* SPDX-License-Identifier: MIT
 *
 * stats.h: snapshots of the statistics and their two written forms. hak_stats_* of hakmem.h rest on this.
 *
 * A hak_stats_t is 10 KB, too much for a small thread stack, so functions that need one of their own map it for the
 * length of the call. Nothing here is shared and nothing is kept.
 */
#ifndef HK_STATS_H
#define HK_STATS_H

#include "base/base.h"
#include "core/print.h"
#include "hakmem.h"

/* Takes a snapshot into fresh memory; NULL when there is none. The caller gives it back with stats_release. */
hak_stats_t *stats_take(void);
void stats_release(hak_stats_t *stats);

/* Sums of all classes; block_size is 0. */
hak_class_stats_t stats_class_sum(const hak_stats_t *stats);

void stats_write(hk_out_t *out, const hak_stats_t *stats, hak_format_t format);

/* Notes what the program is called: the C library's name for it lies in memory that is the program's. Once, before
 * there are threads. */
void hk_stats_note_program(void);

/* Prints what HAKMEM_STATS asks for. To be called once, as late in the process as may be. */
void hk_stats_at_exit(void);

/* A file's name, with the number of the process for %p. False when it gets too long. */
bool hk_path_expand(char *path, size_t size, const char *name);

#endif
