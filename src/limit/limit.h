/* SPDX-License-Identifier: MIT
 *
 * limit.h: limits on the memory of the process: HAKMEM_LIMIT, hak_limit_set, and memory.high and memory.max of its
 * cgroup.
 *
 *   FAR --use reaches 9/10 of soft--> NEAR --use falls to 8/10--> FAR
 *   NEAR: memory is given back at once, magazines are small, runs go at once
 *   a request that takes use beyond hard is refused; the caller trims and asks once more
 *
 * What is taken from the pool is counted anyway; only when that count passes `check_at`, the next limit, is the kernel
 * asked for what is resident of anonymous memory; from there on every 128th part of the limit. And while that count is
 * so high, by each thread that took from slabs a part of the way that is left (slow/tick.h): memory that is taken and
 * not resident comes again page by page, and of that nothing is counted. The cgroup is read at the first such look, at
 * 32 MiB, or at the start when HAKMEM_LIMIT is set: other small programs never do. It is read again before a limit
 * comes near, about once a second in which memory goes back while one is, and before anything is refused. Of memory.max
 * a 32nd part is left for what the kernel takes besides: page tables, a huge page between two looks.
 *
 * Any thread, with or without a heap's lock.
 */
#pragma once

#include "base/base.h"
#include "large/huge.h"
#include "superslab/superslab.h"

#include <stdatomic.h>

extern _Atomic size_t hk_limit_check_at; /* written by the thread that looks */

/* What was last read of the control group; UINT64_MAX is none. */
extern _Atomic uint64_t hk_cgroup_high, hk_cgroup_max;

/* How many bytes a thread may take from slabs until it looks: INT64_MAX where what is taken is far from a limit.
 * Written by the thread that looks, read by all. Relaxed: no other memory depends on it. */
extern _Atomic size_t hk_limit_step;
HK_INLINE size_t limit_step(void) { return atomic_load_explicit(&hk_limit_step, memory_order_relaxed); }

/* False when `more` bytes would go beyond the hard limit. */
bool limit_look(size_t more);

HK_INLINE bool limit_needs_no_look(size_t more) {
    size_t taken = superslab_taken_bytes() + huge_bytes() + more;
    return hk_likely(taken < atomic_load_explicit(&hk_limit_check_at, memory_order_relaxed));
}

HK_INLINE bool limit_allows(size_t more) { return limit_needs_no_look(more) || limit_look(more); }

/* Whether limits are so far that nobody would have to look for `more` bytes. A request that could do with less asks
 * this: nothing is refused by it, and no limit comes near. */
bool limit_is_far(size_t more);

/* Bytes that fit below the hard limit now; SIZE_MAX without one. */
size_t limit_room(void);

/* Memory went back: looks anew if there is a limit; at the group's, if one is near. */
void limit_follow(void);

/* Near one of these, or near one of the kernel's own, as its last refusal tells (region/scarce.h). */
HK_INLINE bool limit_is_near(void) {
    return atomic_load_explicit(&hk_limit_near, memory_order_relaxed) || region_is_near_limit();
}

/* Looks, and says whether memory is to go back before more is allocated: the hard limit is half of the way from
 * near to it away, and use has grown since that was last said. */
bool limit_wants_relief(void);

/* Whether there was a first look yet: the process is larger than a small program. */
extern _Atomic bool hk_cgroup_is_read HK_HIDDEN;
HK_INLINE bool limit_has_looked(void) { return atomic_load_explicit(&hk_cgroup_is_read, memory_order_relaxed); }

/* The limits in force; SIZE_MAX is none. */
typedef struct limits {
    size_t soft, hard;
} limits_t;
limits_t limit_in_force(void);
