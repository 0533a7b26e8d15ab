/* SPDX-License-Identifier: MIT
 *
 * superslab.h: the slot pool.
 *
 * A superslab is 2 MiB of the region, 32 slots of 64 KiB. Slots of any use lie side by side. New slots come from the
 * fullest superslab that has room, so that the emptiest drain and go back whole: in it the lowest that serve, or any by
 * chance at levels 2 and 3 (scatter.h).
 *
 *     free_mask   1 = the slot is free
 *     dirty_mask  1 = the slot is free and its pages may be resident; subset of free_mask
 *
 *   USED --slots_free--> FREE, DIRTY --purge--> FREE, clean --whole superslab free--> region
 *
 * Superslabs with a free slot wait in a bin by their use (dense or sparse), by the largest aligned run of free slots
 * and by the number of free slots. Empty ones without a dirty slot come last: what nobody needed and was given back
 * stays with the kernel. Dense slots may come from sparse superslabs, not the other way round.
 * Those with dirty slots wait in a queue, oldest first, and in lists by the longest run of such slots. Everything is
 * guarded by the superslab lock; purging itself (the system call) is done without it, on slots taken out of free_mask
 * for the time.
 *
 * At level 3 slabs of a class lie in superslabs that are private to the class, and stay so when they are empty: they
 * have bins of their own, those with dirty slots first, and no other slab or run has a place in them (scatter.h).
 *
 * Where the kernel refuses memory, a superslab may be a *part*: of its slots only some are *present*, that is mapped.
 * The others are absent: never free, never taken, and perhaps somebody else's. A part comes into being when a whole
 * superslab was refused, with so many slots as could be had by halves, and when free slots are unmapped so that a block
 * gets a mapping of its own. Absent slots are mapped again when nothing else serves. A part has small pages, and goes
 * back to the region with its last slot, dirty or not.
 *
 *     present_mask  1 = the slot is mapped by us
 *
 * SUPERSLAB-1  dirty_mask is a subset of free_mask, zeros_mask of dirty_mask, free_mask of present_mask.
 * SUPERSLAB-2  a superslab is in a bin exactly when free_mask is not 0, and in the bin that its mask says.
 * SUPERSLAB-3  a superslab is in the dirty queue exactly when its dirty_mask is not 0, which its `queued` flag says,
 *              and then in the list of its longest run of dirty slots.
 * SUPERSLAB-4  a part never lies free as a whole, and has no huge pages.
 */
#pragma once

#include "superslab/bins.h"
#include "superslab/dirty.h"
#include "superslab/fence.h"
#include "superslab/haste.h"
#include "superslab/huge_pages.h"
#include "superslab/parts.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
#include "superslab/runs.h"
#include "superslab/scatter.h"
#include "superslab/spare.h"
