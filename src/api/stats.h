/* SPDX-License-Identifier: MIT
 *
 * stats.h: snapshots of the statistics. hak_stats_* of hakmem.h rest on this.
 *
 * A hak_stats_t is 10 KB, too much for a small thread stack, so functions that need one of their own map it for the
 * length of the call. Nothing here is shared and nothing is kept.
 */
#pragma once

#include "base/base.h"
#include "hakmem.h"

/* Takes a snapshot into fresh memory, with what is resident or by counts alone (report/stats.h); NULL when there is no
 * memory. The caller gives it back with stats_release. */
hak_stats_t *stats_take(bool with_residency);
void stats_release(hak_stats_t *stats);
