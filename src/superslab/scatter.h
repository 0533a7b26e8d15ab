/* SPDX-License-Identifier: MIT
 *
 * scatter.h: chance, for who decides where something lies. At safety levels 2 and 3 nobody is to foretell that.
 */
#pragma once

#include "core/options.h"
#include "superslab/pool.h"

/* Whether superslabs lie apart, and fences between slabs: not once addresses or memory were scarce. */
HK_INLINE bool pool_scatters(void) { return hk_option(HK_OPT_SAFE) >= 2 && !region_is_tight(); }

/* A number below `bound`, which is at most 256; 0 below level 2. */
unsigned pool_draw_locked(unsigned bound);

/* One of the bits of a mask that has some: the lowest below level 2. */
unsigned pool_draw_bit_locked(uint32_t mask);

/* Takes neighbouring superslabs from the region, the first at a multiple of `align`. A single one has a random place
 * among those around the lowest that is nobody's. Returns the first, or 0 when memory is out. */
size_t pool_claim_locked(size_t count, size_t align);

/* In the child of a fork, whatever locks are held: it draws other numbers than its parent. */
void scatter_after_fork(void);
