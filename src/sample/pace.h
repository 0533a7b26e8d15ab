/* SPDX-License-Identifier: MIT
 *
 * pace.h: how often one thread is sampled. A sample takes a microsecond where all that it reads is at hand, and several
 * in a program that uses the processor's caches itself; a thread that allocates 1 MiB as fast as 64 bytes would do
 * little else. So what samples take is measured, and a thread that has spent more than its share on them gets an
 * interval of its own: as many bytes as it allocates in the time that a sample may take, by how fast it was since the
 * sample before. It goes again when none comes for long.
 *
 * PACE-1  A thread spends at most 1 / PACE_SHARE of its time on samples, and PACE_BURST_NS more, so that those of a
 *         burst are all taken. Where the thread becomes faster a few more are needed to see it. The first PACE_FIRST
 *         samples of a profile, by which short programs are known, may take 1 / PACE_FIRST_SHARE.
 * PACE-2  The interval that a block is sampled with is settled before the block is asked for, and depends on what was,
 *         not on the block. A sample counts by it (chance.h), so estimates are right on average at any pace.
 *
 * Data: the draw of a thread (sampler.h), which alone changes it. The clock is an argument; it may wrap.
 */
#pragma once

#include "base/base.h"

enum {
    PACE_LOG2_MIN = 19, /* 512 KiB: who asks for less wants that many samples, whatever they cost */
    PACE_SHARE = 2000,
    PACE_FIRST = 256,
    PACE_FIRST_SHARE = 128,
    PACE_BURST_NS = 12000,
    PACE_COST_NS = 2000,       /* of a sample, before one was measured */
    PACE_COST_MOST_NS = 16000, /* what is longer was the first of all, or not on a processor; */
    PACE_COST_JUMP = 4,        /* ... so are so many times the average: no more counts */
    PACE_COST_SHARE = 8,       /* a sample's part in the average of all */
    PACE_SEEN_SHARE = 8, /* no speed is taken from less of a period: one sample makes the interval so much longer */
};

/* All zeros at first. */
typedef struct pace {
    uint32_t since_us;    /* of the last sample, or of the look that made the interval shorter */
    uint32_t cost_ns;     /* of a sample, on average; 0: none was measured */
    uint32_t spent_ns;    /* on samples, less the share of the time since */
    uint32_t share;       /* of the time, that of the last sample */
    uint32_t longer_log2; /* the thread's interval is longer by this power of two */
} pace_t;

/* A profile with this interval had so many samples, of any thread, when one was taken. */
typedef struct pace_profile {
    unsigned interval_log2;
    uint64_t samples;
} pace_profile_t;

/* A sample is taken, `bytes` after the one before; it took `cost_ns`. */
void pace_sampled(pace_t *pace, pace_profile_t profile, uint64_t bytes, uint32_t now_us, uint64_t cost_ns);

/* Whether it is to be looked at, as no sample came for long. */
bool pace_can_rest(const pace_t *pace, uint32_t now_us);

/* Looks: `bytes` were allocated since the last sample. True when the interval is shorter now: the next distance is to
 * be drawn anew. */
bool pace_rest(pace_t *pace, unsigned interval_log2, uint64_t bytes, uint32_t now_us);
