/* SPDX-License-Identifier: MIT
 *
 * wipe.h: runs at HAKMEM_SAFE=2 and 3: how one becomes zeros when it is freed, how it is looked at before it serves
 * again, and at level 3 what lies behind the bytes that were asked for.
 *
 * A program that fills its long blocks pays more for pages that come back one by one than for zeros written over them;
 * one that touches a page here and there has most of them known to be zeros by giving back all. So it is by length what
 * the last runs of that length were like: the kernel is asked (mincore), each time where runs are filled, else at one
 * in WIPE_ASKS.
 *
 * Slack: the run's record has its length. Its bytes are SEAL_SLACK to the end of their page, and zeros behind.
 */
#pragma once

#include "base/base.h"

enum {
    WIPE_ASKS = 16,
    WIPE_BYTES_MAX = 4 << 20, /* no longer run keeps its pages */
};

/* The run, or what follows it, reads as zeros. True when its pages stayed. */
bool wipe_run(char *run, size_t size);

/* Reports a run that does not read as zeros, which pages that nobody touched do unseen, and makes it zeros again. */
void wipe_report_if_written(char *run, size_t size, const void *caller);

/* Whether a block of a slab that was never handed out reads as zeros. Pages that nobody touched do unseen. */
bool wipe_is_untouched(const char *block, size_t size);

/* The run's last `slack` bytes were not asked for: they are filled, in a run that is zeros behind the rest. */
void wipe_fill_slack(char *run, size_t size, size_t slack);

/* What was filled is zeros again. */
void wipe_clear_slack(char *run, size_t size, size_t slack);

/* Offset of the first byte of the slack that is another now; `size` when none is. */
size_t wipe_find_in_slack(const char *run, size_t size, size_t slack);
