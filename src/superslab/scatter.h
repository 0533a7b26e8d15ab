/* SPDX-License-Identifier: MIT
 *
 * scatter.h: chance, for who decides where something lies. At safety levels 2 and 3 nobody is to foretell that.
 */
#pragma once

#include "core/options.h"
#include "superslab/pool.h"

/* Whether superslabs lie apart, and fences between slabs: not once addresses or memory were scarce. */
HK_INLINE bool pool_scatters(void) { return hk_option(HK_OPT_SAFE) >= 2 && !region_is_tight(); }

/* At level 3 superslabs with slabs of a class are private to it: no slot of them will ever hold anything else. At the
 * limit of what the kernel gives, slabs lie in parts besides, which are not, and private superslabs go when empty. */
HK_INLINE bool pool_has_private(void) { return hk_option(HK_OPT_SAFE) >= 3; }

/* What slots of a class's slabs are for. */
HK_INLINE slots_use_t slots_use_of_class(unsigned cls, slots_use_t use) {
    hk_assert(cls < SLOTS_CLASSES_MAX && use < SLOTS_USES);
    return pool_has_private() ? use + (cls + 1) * SLOTS_USES : use;
}

/* A number below `bound`, which is at most 256; 0 below level 2. */
unsigned pool_draw_locked(unsigned bound);

/* One of the bits of a mask that has some: the lowest below level 2. */
unsigned pool_draw_bit_locked(uint32_t mask);

/* Takes neighbouring superslabs from the region, the first at a multiple of `align`. A single one has a random place
 * among those around the lowest that is nobody's. Returns the first, or 0 when memory is out. */
size_t pool_claim_locked(size_t count, size_t align);

/* In the child of a fork, whatever locks are held: it draws other numbers than its parent. */
void scatter_after_fork(void);
