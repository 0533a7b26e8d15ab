/* SPDX-License-Identifier: MIT
 *
 * place.h: where a run goes: the most of it resident, in the shortest stretch of free slots that serves.
 *
 * A stretch may go on in the next superslabs, also in those of the region. It is found from its dirty slots. Most lie
 * within one superslab, whose masks tell all there is to know: no other record is read.
 */
#pragma once

#include "superslab/pool.h"

typedef struct place {
    size_t count, align;
    size_t first;
    size_t dirty; /* of its slots, so many; 0: there is no place */
    size_t room;
    size_t seen, seen_end; /* the stretch that was looked at last */
    size_t walked;         /* superslabs looked at so far */
} place_t;

/* For `count` slots, the first a multiple of `align` (a power of two); `in_a_hurry`: the first that is all dirty. */
place_t pool_find_place_locked(size_t count, size_t align, bool in_a_hurry);

/* How many of `count` free slots are dirty. */
size_t pool_dirty_at(size_t first, size_t count);

/* Free slots from `at` on, at most `most`; those of the region count as long as they are less than `wanted`. */
size_t pool_free_after(size_t at, size_t most, size_t wanted);
