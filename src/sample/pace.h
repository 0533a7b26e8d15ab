/* SPDX-License-Identifier: MIT
 *
 * pace.h: how often one thread is sampled. A sample takes about a microsecond; a thread that allocates 1 MiB as fast as
 * 64 bytes would do little else. So a thread whose samples come in haste gets an interval of its own: as many bytes as
 * it allocates in PACE_US, by how fast it was since the sample before. It goes again when none comes for long.
 *
 * PACE-1  A thread of steady speed has at most a sample in PACE_US on average. PACE_BURST samples more are free, so
 *         that those of a burst are all taken, and one of these comes back each PACE_HASTE_US * PACE_REGAIN. Where the
 *         thread becomes faster a few more are needed to see it; it became slower for PACE_REST_US before.
 * PACE-2  The interval that a block is sampled with is settled before the block is asked for, and depends on what was,
 *         not on the block. A sample counts by it (chance.h), so estimates are right on average at any pace.
 *
 * Data: the draw of a thread (sampler.h), which alone changes it. The clock is an argument; it may wrap.
 */
#ifndef HK_SAMPLE_PACE_H
#define HK_SAMPLE_PACE_H

#include "base/base.h"

enum {
    PACE_LOG2_MIN = 19,          /* 512 KiB: who asks for less wants that many samples, whatever they cost */
    PACE_US = 256,               /* or up to twice as long: intervals are powers of two */
    PACE_HASTE_US = PACE_US / 2, /* from the sample before; what comes sooner is hasty */
    PACE_REST_US = 2 * PACE_US,
    PACE_SEEN_US = PACE_US / 8, /* no speed is taken from less: one sample makes the interval 8 times as long at most */
    PACE_BURST = 32,            /* hasty samples of a calm thread that do not count */
    PACE_REGAIN = 8,
};

/* All zeros at first. */
typedef struct pace {
    uint32_t since_us;    /* of the last sample, or of the look that made the interval shorter */
    uint32_t spent_us;    /* of the burst: PACE_HASTE_US for each hasty sample, less what came back */
    uint32_t longer_log2; /* the thread's interval is longer by this power of two */
} pace_t;

/* A sample is taken, of a profile with this interval, `bytes` after the one before. */
void pace_sampled(pace_t *pace, unsigned interval_log2, uint64_t bytes, uint32_t now_us);

/* Whether it is to be looked at, as no sample came for long. */
bool pace_can_rest(const pace_t *pace, uint32_t now_us);

/* Looks: `bytes` were allocated since the last sample. True when the interval is shorter now: the next distance is to
 * be drawn anew. */
bool pace_rest(pace_t *pace, unsigned interval_log2, uint64_t bytes, uint32_t now_us);

#endif
