/* SPDX-License-Identifier: MIT
 *
 * draw.h: when a thread's next sample is due. Distances are random (chance.h), and their mean is what the profile asks
 * for, or longer by the thread's pace (pace.h).
 */
#pragma once

#include "base/relaxed.h"
#include "sample/pace.h"

#include <stdatomic.h>

/* --- What draws are for: written under hk_sample_lock, read without ----------------------------------------------- */

/* Changes when all draws are to be made anew: start, stop, reset, and in the child of a fork. 0: there was never a
 * profile. */
extern _Atomic uint32_t hk_sample_generation;

HK_INLINE uint32_t sample_generation(void) { return atomic_load_explicit(&hk_sample_generation, memory_order_relaxed); }

/* Whether a block may have a record. Relaxed: who has a block knows of what was written before it was handed out. */
HK_INLINE bool sample_was_ever_on(void) { return hk_unlikely(sample_generation() != 0); }

extern _Atomic bool hk_sample_active HK_HIDDEN;
HK_INLINE bool sample_is_active(void) { return atomic_load_explicit(&hk_sample_active, memory_order_relaxed); }

/* The profile's interval, a power of two. What is drawn already keeps its own. */
uint32_t draw_interval_log2(void);

void draw_set_interval(uint32_t log2);

/* All draws are to be made anew. */
void draw_all_anew(void);

void draw_set_active(bool active);

/* --- A thread's --------------------------------------------------------------------------------------------------- */

/* A thread's place on the way to its next sample. All zeros at first. */
typedef struct sample_draw {
    int64_t left;        /* bytes to the next sample, when `generation` is that of the sampler */
    int64_t distance;    /* what `left` was when it was drawn */
    uint64_t due_after;  /* ... of the sample that is due: bytes since then */
    uint64_t random;     /* 0: none yet */
    uint32_t generation; /* of the profile that it is drawn for */
    uint32_t thread;     /* the kernel's number; 0: not asked yet */
    uint32_t taken;      /* samples */
    uint32_t name;       /* the thread's place in the table of threads; 0: none */
    pace_t pace;
    uint8_t looks; /* slow paths, while it has an interval of its own */
    uint8_t interval_log2;
    uint8_t due_log2; /* that of the sample that is due */
} sample_draw_t;

/* The thread has allocated `elapsed` bytes since the last call, `size` of them now (0: it does not allocate). True when
 * that is to be sampled. */
bool sample_is_due(sample_draw_t *draw, uint64_t elapsed, uint64_t size);

/* Whether the thread has an interval of its own (pace.h). */
HK_INLINE bool sample_is_paced(const sample_draw_t *draw) { return hk_unlikely(draw->pace.longer_log2 != 0); }

/* Of one that has: it gets a shorter one when no sample came for long. The clock is that of pace.h. */
void sample_keep_pace(sample_draw_t *draw, uint32_t now_us);

/* Whether that is to be called; looks at the clock each few times. */
bool sample_must_keep_pace(sample_draw_t *draw);

/* Bytes that the thread may allocate before it must ask again, whether one is due or its pace can change: INT64_MAX
 * when nothing is sampled. */
int64_t sample_bytes_left(const sample_draw_t *draw);

/* From here on the draw is another thread's. */
HK_INLINE void sample_new_thread(sample_draw_t *draw) { draw->thread = draw->name = draw->taken = 0; }
