/* SPDX-License-Identifier: MIT
 *
 * runs.h: slots in any number, also across superslabs: where they are placed.
 */
#pragma once

#include "superslab/spare.h"

/* Takes `count` contiguous slots, the first a multiple of `align` slots (a power of two). */
slots_t slots_alloc_with_spare(size_t count, size_t align, slots_use_t use, slots_spare_t *spare);

HK_INLINE slots_t slots_alloc(size_t count, size_t align, slots_use_t use) {
    slots_spare_t none = {0};
    return slots_alloc_with_spare(count, align, use, &none);
}

/* Takes slots of fresh superslabs, for a run that grows by `grown` slots: as many that are dirty go back to the kernel.
 * The others have pages that are moved there, or that the caller has to copy. */
slots_t slots_alloc_fresh(size_t count, size_t grown, bool huge);

/* Takes slots that are all dirty, in a stretch of eight times as many, or four or two times, that is all dirty: a run
 * can grow there. The stretch has `least_room` slots at least, or there are none. */
slots_t slots_alloc_dirty(size_t count, size_t least_room);

/* Whether all of these slots are free, and may be resident. */
bool slots_are_dirty(slot_t first, size_t count);

/* Whether the superslabs of a run have the same kind of pages, so that it can be moved as one mapping. */
bool slots_alike(slot_t first, size_t count);

/* Takes exactly the `count` slots from `first`, when all of them are free: growth in place. */
bool slots_alloc_at(slot_t first, size_t count, bool *zeroed);

/* Takes exactly these slots of one superslab of the pool, when all of them are free, and dirty. */
bool slots_take_free(slot_t first, size_t count);
bool slots_take_dirty(slot_t first, size_t count);

/* Gives slots back; `dirty` when their pages may be resident. */
void slots_free(slot_t first, size_t count, bool dirty);

/* Gives free slots of one superslab back, together. */
void slots_free_mask(size_t superslab, uint32_t mask, bool dirty);

/* Gives dirty slots back that are about to be used again: they stay resident, however many. */
void slots_free_for_reuse(slot_t first, size_t count);

/* Supplies the pages of fresh slots ahead of use, as HAKMEM_PREFAULT says. Call it without locks or under a heap's. */
void slots_prefault(slot_t first, size_t count);
