/* SPDX-License-Identifier: MIT
 *
 * figures.h: where the memory of the process is, as a profile's file says it: parts that add up to what is resident,
 * and what went back to the kernel since the start.
 */
#pragma once

#include "base/base.h"
#include "hakmem.h"

/* An image_figures_t (sample/image.h). */
size_t hk_figures_text(char *text, size_t size);

/* hk_snapshot into fresh memory, as a hak_stats_t is too much for a small thread stack; NULL when there is none. The
 * caller gives it back by the second, which takes NULL too. */
hak_stats_t *hk_snapshot_take(bool with_residency);
void hk_snapshot_release(hak_stats_t *stats);
