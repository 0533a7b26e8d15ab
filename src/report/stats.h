/* SPDX-License-Identifier: MIT
 *
 * stats.h: the statistics of all heaps. Any thread, at any time, also before the first allocation.
 */
#ifndef HK_REPORT_STATS_H
#define HK_REPORT_STATS_H

#include "hakmem.h"

/* Fills every field of `stats` but struct_size, with zeros in a stranded process (start/fork.h) and where the allocator cannot start.
 * Other threads may go on allocating meanwhile. */
void hk_snapshot(hak_stats_t *stats);

#endif
