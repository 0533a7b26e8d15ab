/* SPDX-License-Identifier: MIT
 *
 * dirty.h: the superslabs with dirty slots: oldest first, and by the longest stretch of such slots.
 */
#pragma once

#include "superslab/pool.h"

/* These slots of the superslab are dirty. */
void pool_set_dirty_locked(superslab_t *s, uint32_t mask);

/* Puts the superslab into the list that its dirty slots and its use say. */
void pool_relist_locked(superslab_t *s);

/* The superslab whose dirty slots wait longest for a purge, or 0; POOL_QUEUE leads on. */
uint32_t pool_dirty_head_locked(void);

/* The first superslab whose longest stretch of dirty slots has this length, or 0; POOL_OF_LENGTH leads on. */
uint32_t pool_of_length_locked(unsigned length);

/* The shortest such length from `least` on, and the longest below `end`; 0: there is none. */
unsigned pool_length_from_locked(unsigned least);
unsigned pool_length_below_locked(unsigned end);

/* Violations of SUPERSLAB-3 among the `queued` superslabs flagged, of at most `limit`. */
size_t pool_check_dirty_locked(size_t queued, size_t limit);

/* The least number of slots that were dirty at any time since the last call: so many were free all the time. */
size_t superslab_dirty_low(void);
