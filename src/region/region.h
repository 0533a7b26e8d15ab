/* SPDX-License-Identifier: MIT
 *
 * region.h: the superslabs of hakmem's window of address space.
 *
 * The window (region/window.h) is a range of addresses, picked at random at start. Nothing of it is reserved:
 * superslabs are claimed (mapped, exactly there, never over somebody else's mapping) when they are needed. The
 * process therefore pays RLIMIT_AS, overcommit accounting and VIRT for the most that it has used since the last
 * trim, or just for what it uses where those are scarce (region/scarce.h), and every record of ours is found by
 * arithmetic.
 *
 * Superslab states (region/index.h):
 *
 *   UNKNOWN --claim--> USED --release--> FREE (claimed, reads as zeros) --alloc--> USED
 *                      FREE --unclaim--> UNCLAIMED --claim--> FREE, or UNKNOWN when somebody else has mapped there
 *
 *   UNKNOWN, UNCLAIMED --claim a part--> USED --release the part--> UNCLAIMED
 *
 * They are handed out first fit, in the order of addresses, below the *frontier*; then the frontier moves on. Where it
 * meets a mapping of somebody else's, it looks 1, 2, 4, ... superslabs further, and goes on behind: what lies between
 * stays UNKNOWN. When the window ends, all that is UNKNOWN is looked at again: what was somebody else's may be given
 * back by then.
 *
 * REGION-1  a USED superslab belongs to exactly one caller of region_alloc or region_alloc_part; its records (slot
 *           table, live bits, superslab, slabs) are mapped.
 * REGION-2  memory handed out reads as zeros.
 * REGION-3  superslabs at or above the frontier are UNKNOWN.
 *
 * All functions are thread-safe; state is guarded by the region lock.
 */
#pragma once

#include "base/base.h"
#include "core/lock.h"
#include "region/area.h"
#include "region/scarce.h"
#include "region/window.h"

extern hk_lock_t hk_region_lock HK_HIDDEN;

/* Finds the window. Returns 0 or ENOMEM; then it may be called again. Called before anything else here. */
int region_init(void);

/* Takes `count` contiguous superslabs whose first index is a multiple of `align` (a power of two). Returns the first
 * index (never 0), or 0 when memory is out. */
size_t region_alloc(size_t count, size_t align);

/* Tries to take exactly the superslabs [first, first + count). */
bool region_alloc_at(size_t first, size_t count);

/* Whether superslab `index` is nobody's, as far as is known: a hint for region_alloc_at. */
bool region_may_serve(size_t index);

/* Whether superslab `index` is mapped by us, if only a part of it. What is not may be somebody else's mapping. */
bool region_has(size_t index);

/* The superslab that would be handed out next, as far as is known. */
size_t region_lowest_free(void);

/* Gives superslabs back. Their pages must have been given back to the kernel before (REGION-2). */
void region_release(size_t first, size_t count);

/* Where a whole superslab was refused: takes one of which only the first slots are mapped, so many as can be had by
 * halves, half of all at the most and `least` at the least. Returns its index, or 0. What lies behind them is nobody's,
 * and may become somebody else's. */
size_t region_alloc_part(size_t least, size_t *slot_count);

/* Maps slots of a USED superslab that are not mapped. False when that cannot be had there. */
bool region_map_slots(size_t index, unsigned first, unsigned count);

/* Unmaps some that are. Returns those that are gone: at the limit of mappings, the kernel cannot make two out of
 * one. */
uint32_t region_unmap_slots(size_t index, uint32_t mask);

/* Gives back a superslab of which just the slots of `mask` are mapped. */
void region_release_part(size_t index, uint32_t mask);

/* Unmaps what is free, where address space is scarce or in any case. */
void region_relieve(bool even_if_plenty);

/* sys_map_blocks_at and sys_map_blocks_over for a piece of the window, without huge pages that nobody asked for (a
 * kernel set to `always`). */
int region_map_at(void *address, size_t size);
int region_map_over(void *address, size_t size);

/* The first superslab from `from` on that is USED; 0 when there is none. Its records can be read. A walk over the heap
 * goes this way, so that it costs next to nothing where somebody else's mapping was stepped over. */
size_t region_next_used(size_t from);

/* One past the highest superslab ever used. */
size_t region_frontier(void);

/* Verifies the index. */
bool region_check(void);
