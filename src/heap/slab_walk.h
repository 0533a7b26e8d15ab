/* SPDX-License-Identifier: MIT
 *
 * slab_walk.h: from slots to slabs, whoever owns them.
 *
 * A walk goes over the slots of the window in address order and holds the lock of one heap at a time: that of the slab
 * it stands on. Slabs change hands and come and go meanwhile; under the lock of its owner a slab stays what it is.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"

typedef struct slab_walk {
    heap_t *held;
    bool all;       /* slabs of explicit heaps too, whose blocks nobody else may take in hand (EXPLICIT-1) */
    bool patient;   /* waits for a lock instead of passing a slab whose heap is busy */
    uint32_t tries; /* else: how often it still may try a lock that is taken, over all slabs */
} slab_walk_t;

/* Lets go of the lock that is held, if any. */
void slab_walk_let_go(slab_walk_t *walk);

/* Holds the lock of heap `owner`, and no other; false when somebody else has it. */
bool slab_walk_hold(slab_walk_t *walk, uint32_t owner);

/* The slab that begins in the slot, its owner's lock held; NULL when none does or its heap is busy. */
slab_t *slab_walk_at(slab_walk_t *walk, slot_t slot);
