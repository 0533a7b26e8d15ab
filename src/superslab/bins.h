/* SPDX-License-Identifier: MIT
 *
 * bins.h: the superslabs with a free slot, by how well they serve: how they are opened and closed, and how slots within
 * one are taken and given.
 */
#pragma once

#include "superslab/pool.h"

/* Takes the free slots of `mask`; true when all of them read as zeros. */
bool pool_take_locked(superslab_t *s, uint32_t mask);

/* Gives slots back; the second also returns an empty superslab to the region: one that is given as a whole and clean,
 * and clean ones beyond a few. */
void pool_give_locked(superslab_t *s, uint32_t mask, bool dirty);
void pool_free_locked(size_t index, uint32_t mask, bool dirty);

/* Superslabs that are free and clean go to the region: neighbours together, so that its index is added up once, or one
 * of which a part is mapped. */
void pool_close_locked(size_t first, size_t count);

/* Slots that nobody has used yet. Those that a huge page brings along are resident with it: they serve before anything
 * fresh, or go back, but they read as zeros. */
void pool_give_fresh_locked(superslab_t *s, uint32_t mask, bool brought_along);

/* Takes one superslab from the region, at its place; its slots are all taken then. */
bool pool_open_at_locked(size_t index, bool huge);

/* Takes neighbouring superslabs from the region for `slot_count` slots, the first at a multiple of `align` superslabs;
 * the slots of `tail_mask` in the last are free. The first `huge` of them ask for huge pages. 0: memory is out. */
slot_t pool_open_locked(size_t slot_count, size_t align, uint32_t tail_mask, slots_use_t use, size_t huge);

/* Takes a part from the region, of `least` slots at least from its beginning on, which are free then; or NULL. */
superslab_t *pool_open_part_locked(unsigned least, slots_use_t use);

/* Takes slots within one superslab. */
slots_t pool_alloc_within_locked(unsigned count, unsigned align, slots_use_t use);

/* Changes the use of an empty superslab. */
void pool_convert_locked(superslab_t *s, slots_use_t use, bool huge);

/* Returns the empty superslabs kept for reuse to the region, where a long run may need them. */
void superslab_close_empty(void);

/* What superslab `index` looks like right now. */
typedef struct superslab_view {
    uint32_t free_mask, dirty_mask, present_mask;
    bool in_use, huge;
} superslab_view_t;

superslab_view_t superslab_view(size_t index);

/* Verifies SUPERSLAB-1..4; returns the violations found, each printed. */
size_t superslab_check(void);
