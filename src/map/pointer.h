/* SPDX-License-Identifier: MIT
 *
 * pointer.h: what the program gets of a block of ours: its address, with its tag where it has one (sys/tags.h).
 */
#pragma once

#include "map/map.h"
#include "sys/tags.h"

/* Of a block of a slab. */
HK_INLINE void *pointer_to_slab(void *block) { return tags_are_on() ? tags_load(block) : block; }

/* Of any block. NULL for NULL; what is such a pointer already stays as it is. */
HK_INLINE void *pointer_to(void *block) {
    if (!tags_are_on())
        return block;
    const uint32_t entry = map_lookup(block);
    return entry != 0 && !map_is_run(entry) ? tags_load(block) : block;
}
