/* SPDX-License-Identifier: MIT
 *
 * low_water.h: how much of a stock nobody needed for a while.
 *
 * A stock of free memory goes up and down with the load. What may go back to the kernel is what lay there all through
 * the delay: the least level of that time, less a part of how far the level swings. A burst that comes back within the
 * delay finds its memory still there, also when it is a little larger than the last one; once nothing comes and goes,
 * all goes back.
 *
 * The delay is cut into quarters; each holds the least and the highest level seen in it. Pure: levels and time are
 * arguments.
 */
#pragma once

#include "base/base.h"

enum { LOW_WATER_PARTS = 4, LOW_WATER_SPARE_SHARE = 8 };

typedef struct low_water_part {
    size_t least, most;
} low_water_part_t;

typedef struct low_water {
    low_water_part_t parts[LOW_WATER_PARTS]; /* complete ones, a ring */
    low_water_part_t part;                   /* the one that runs */
    uint64_t part_ends_ms;
    unsigned next;
} low_water_t;

/* What was never needed during the delay, and is not spare for swings like those of that time. */
HK_INLINE size_t low_water_unneeded(const low_water_t *w) {
    low_water_part_t all = w->parts[0];
    for (unsigned i = 1; i < LOW_WATER_PARTS; i++) {
        all.least = hk_min(all.least, w->parts[i].least);
        all.most = hk_max(all.most, w->parts[i].most);
    }
    return all.least - hk_min(all.least, (all.most - all.least) / LOW_WATER_SPARE_SHARE);
}

/* Notes the level now, and the least since the last call. Returns what may go back. */
HK_INLINE size_t low_water_note(low_water_t *w, size_t least, size_t level, uint64_t now_ms, uint64_t delay_ms) {
    w->part.least = hk_min(w->part.least, least);
    w->part.most = hk_max(w->part.most, hk_max(level, least));
    if (now_ms < w->part_ends_ms)
        return 0;
    w->parts[w->next++ % LOW_WATER_PARTS] = w->part;
    w->part = (low_water_part_t){SIZE_MAX, 0};
    /* A little early, so that a caller that comes once in a quarter, by a coarse clock, finds each part complete. */
    w->part_ends_ms = now_ms + delay_ms / LOW_WATER_PARTS * 7 / 8;
    return low_water_unneeded(w);
}
