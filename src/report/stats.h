/* SPDX-License-Identifier: MIT
 *
 * stats.h: the statistics of all heaps. Any thread, at any time, also before the first allocation.
 */
#ifndef HK_REPORT_STATS_H
#define HK_REPORT_STATS_H

#include "hakmem.h"

/* Fills every field of `stats` but struct_size, with zeros in a stranded process (start/fork.h) and where the allocator
 * cannot start. Other threads may go on allocating meanwhile. */
void hk_snapshot(hak_stats_t *stats);

/* hk_snapshot without the fields that tell what is resident, for which the kernel is asked about every page: resident,
 * untouched, cached, fragmented, retained, metadata and huge_page_waste stay 0. */
void hk_snapshot_counts(hak_stats_t *stats);

#endif
