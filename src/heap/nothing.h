/* SPDX-License-Identifier: MIT
 *
 * nothing.h: at HAKMEM_SAFE=2 and 3, blocks of size 0: addresses where nobody may read or write.
 *
 * A mapping without access has an address for each of them, 16 bytes from the next, and a bit here says that it is with
 * the program. Any thread, without a lock. Addresses are taken in turn, so that one comes back late. When all are out,
 * a block of size 0 is one of a slab, as any other.
 */
#pragma once

#include "base/base.h"

enum { NOTHING_COUNT = 16384, NOTHING_STEP = 16, NOTHING_ALIGN_MAX = 4096 };

/* NULL when all are out, or there is no mapping for them. `align`: a power of two up to NOTHING_ALIGN_MAX. */
void *nothing_alloc(size_t align);

/* Whether the address lies in the mapping. */
bool nothing_holds(const void *address);

/* The start of the block that an address of the mapping belongs to. */
HK_INLINE const void *nothing_at(const void *address) {
    return (const char *)address - (uintptr_t)address % NOTHING_STEP;
}

/* Whether it is one of the program's blocks. */
bool nothing_is_live(const void *address);

/* False when it is none. */
bool nothing_free(const void *address);
