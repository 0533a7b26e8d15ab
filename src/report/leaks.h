/* SPDX-License-Identifier: MIT
 *
 * leaks.h: at exit, sampled blocks that nobody can free any more: no pointer to them is left.
 *
 * A mark from all that the program can read and write: data of the program and of libraries, stacks, thread-local
 * storage, other mappings, and blocks that are not sampled. What looks like the address of a sampled block, or of any
 * byte in it, keeps it, and what it holds is looked at too (as in H.-J. Boehm and M. Weiser, "Garbage collection in an
 * uncooperative environment", 1988). A number that happens to look like an address may hide a leak; a block that is
 * still pointed to is never reported, unless the pointer is disguised or in memory shared with other processes.
 */
#pragma once

#include "base/base.h"

/* They cannot be looked for: memory is out, or /proc/self/maps cannot be read, as in a confined process. */
#define LEAKS_UNKNOWN SIZE_MAX

/* Prints them by stacks, most bytes first, and nothing when there are none. Returns how many there are. `frame` is the
 * lowest address of the calling thread's stack that counts. Where `may_wait` is false, a frame of this thread that a
 * signal handler has interrupted holds the sampler's lock: then the tables are read without it (FORMAT-1). */
size_t hk_leaks_report(const void *frame, bool may_wait);
