/* SPDX-License-Identifier: MIT
 *
 * sizes.h: how large a block is, would be, or can become where it is.
 */
#pragma once

#include "base/base.h"

/* Usable bytes that a block of `size` bytes has at the least; 0 when there can be none. Allocates nothing, but may
 * start the allocator. */
size_t heap_good_size(size_t size);

/* Changes the size of the block where it is. Returns its usable bytes, any size between which and `size` a sized free
 * takes; 0 when it cannot stay, and then it is as it was. */
size_t heap_expand(void *block, size_t size, const void *caller);
