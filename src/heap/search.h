/* SPDX-License-Identifier: MIT
 *
 * search.h: whether a block is free, wherever that is written down. For reports and for frees that look like mistakes:
 * goes through all heaps, and takes no lock.
 */
#pragma once

#include "heap/heap.h"

/* Whether the block lies in free bits, in a magazine, in a remote table or in a message of any heap. Looks twice before
 * it says yes. */
bool heap_finds_free(const void *block, unsigned cls);

/* heap_finds_free for a block whose live bit is clear. */
bool heap_block_is_free(const void *block, unsigned cls);
