/* SPDX-License-Identifier: MIT
 *
 * fence.h: slots that nobody may touch. A fenced slot is taken from the pool. Call it without the superslab lock.
 */
#pragma once

#include "superslab/pool.h"

/* Takes the slot if it is free, and fences it. */
bool slots_fence(slot_t slot);

/* Where slots are scattered: takes and fences one slot in a few; nobody can foretell which. The slot must be clean, as
 * a dirty one may yet tell of a write after free. Its superslab must have no huge pages, which a fence breaks up. No
 * slot is fenced where that takes a mapping: there are few, and large blocks need them. */
bool slots_fence_at_times(slot_t slot);

/* Opens the slot and gives it back. One that cannot be opened is lost. */
void slots_unfence(slot_t slot);

/* Opens what was fenced by one call; it reads as zeros. False when the kernel has no memory for that. */
bool slots_open(char *from, size_t size);
