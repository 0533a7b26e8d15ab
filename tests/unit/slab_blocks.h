/* SPDX-License-Identifier: MIT
 *
 * slab_blocks.h: blocks of a slab by address, for tests.
 */
#ifndef HK_TEST_SLAB_BLOCKS_H
#define HK_TEST_SLAB_BLOCKS_H

#include "check.h"
#include "slab/slab.h"

/* slab_take, of addresses. */
static inline unsigned take_blocks(slab_t *slab, void **end, unsigned want) {
    static granule_t granules[4096];
    CHECK(want <= 4096);
    unsigned got = slab_take(slab, granules + want, want);
    for (unsigned i = 0; i < got; i++)
        *--end = map_granule_address(granules[want - 1 - i]);
    return got;
}

#endif
