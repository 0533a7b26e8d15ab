/* SPDX-License-Identifier: MIT
 *
 * stats.h: the statistics of all heaps. Any thread, at any time, also before the first allocation.
 */
#pragma once

#include "hakmem.h"

/* Fills every field of `stats` but struct_size, with zeros in a stranded process (start/fork.h) and where the allocator
 * cannot start. Other threads may go on allocating meanwhile. Without residency the kernel is not asked about every
 * page: cached, fragmented and retained are all that is free in slots that did not go back, touched or not, and
 * resident, untouched, metadata and huge_page_waste stay 0. */
void hk_snapshot(hak_stats_t *stats, bool with_residency);

/* Usable bytes that the heap of the calling thread has handed out, and that the thread has freed, since the heap was
 * made. Blocks above 1 GiB and those of explicit heaps are left out. False where there are no figures. */
bool hk_thread_snapshot(uint64_t *allocated, uint64_t *freed);
