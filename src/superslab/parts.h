/* SPDX-License-Identifier: MIT
 *
 * parts.h: superslabs of which some slots are absent, where the kernel refuses memory. They come into being here, by
 * unmapping what is free in others, and get their slots back.
 */
#pragma once

#include "superslab/pool.h"

/* Takes slots, less than a superslab, that are absent of a part, or from the beginning of one of which the region gives
 * a part. */
slots_t pool_alloc_part_locked(unsigned count, unsigned align, slots_use_t use);

/* Where memory is out though some lies free in pieces: unmaps `size` bytes of free slots, so that so much can have a
 * mapping of its own. The longest stretches go first, as each hole is a mapping more; there are only so many holes.
 * Nothing is done for a size that could not be had even without all that is free. Returns the bytes unmapped. */
size_t superslab_release_free(size_t size);
