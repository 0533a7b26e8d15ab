/* SPDX-License-Identifier: MIT
 *
 * runs.h: slots in any number, also across superslabs: where they are placed.
 */
#pragma once

#include "superslab/pool.h"

/* Takes `count` contiguous slots, the first a multiple of `align` slots (a power of two). */
slots_t slots_alloc(size_t count, size_t align, slots_use_t use);

/* Takes slots that are not resident, for pages that are moved there: what is resident serves others. */
slots_t slots_alloc_clean(size_t count, size_t align);

/* Whether the superslabs of a run have the same kind of pages, so that it can be moved as one mapping. */
bool slots_alike(slot_t first, size_t count);

/* Takes exactly the `count` slots from `first`, when all of them are free: growth in place. */
bool slots_alloc_at(slot_t first, size_t count, bool *zeroed);

/* Takes exactly these slots of one superslab of the pool, when all of them are free, and dirty. */
bool slots_take_free(slot_t first, size_t count);
bool slots_take_dirty(slot_t first, size_t count);

/* Gives slots back; `dirty` when their pages may be resident. */
void slots_free(slot_t first, size_t count, bool dirty);

/* Gives dirty slots back that are about to be used again: they stay resident, however many. */
void slots_free_for_reuse(slot_t first, size_t count);

/* Supplies the pages of fresh slots ahead of use, as HAKMEM_PREFAULT says. Call it without locks or under a heap's. */
void slots_prefault(slot_t first, size_t count);
