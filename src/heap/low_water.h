/* SPDX-License-Identifier: MIT
 *
 * low_water.h: how much of a stock nobody needed for a while.
 *
 * A stock of free memory goes up and down with the load. What may go back to the kernel is what lay there all through the
 * delay: the least level of that time. A burst that comes back within the delay finds its memory still there.
 *
 * The delay is cut into quarters; each holds the least level seen in it. Pure: levels and time are arguments.
 */
#ifndef HK_LOW_WATER_H
#define HK_LOW_WATER_H

#include "base/base.h"

enum { LOW_WATER_PARTS = 4 };

typedef struct low_water {
    size_t parts[LOW_WATER_PARTS]; /* complete ones, a ring */
    size_t part;                   /* the least level of the one that runs */
    uint64_t part_ends_ms;
    unsigned next;
} low_water_t;

/* Notes `level`, the least since the last call. Returns what was never needed during the delay. */
HK_INLINE size_t low_water_note(low_water_t *w, size_t level, uint64_t now_ms, uint64_t delay_ms) {
    w->part = hk_min(w->part, level);
    if (now_ms < w->part_ends_ms)
        return 0;
    w->parts[w->next++ % LOW_WATER_PARTS] = w->part;
    w->part = SIZE_MAX;
    w->part_ends_ms = now_ms + delay_ms / LOW_WATER_PARTS;
    size_t least = SIZE_MAX;
    for (unsigned i = 0; i < LOW_WATER_PARTS; i++)
        least = hk_min(least, w->parts[i]);
    return least;
}

#endif
