/* SPDX-License-Identifier: MIT
 *
 * sparse.h: gives back the whole pages inside slabs that are in use.
 *
 * A slab's `age` says since when it has been idle: SLAB_AGE_NEW from the last time that a block came or went, then
 * a reading of a clock of few bits, set when a round finds it. Once it has been idle for the delay, every stretch of
 * free blocks that covers whole pages is taken out of free_bits (under the lock of the slab's heap, which is only
 * tried), its pages go back to the kernel without a lock, and the blocks return. From then on the slab is
 * SLAB_AGE_PURGED, until something is freed in it again. Slabs that are in use all the time are never idle, so memory
 * that keeps coming back is left alone.
 *
 * A superslab of huge pages is left alone too while less than half of it is free: a hole of 4 KiB costs the whole huge
 * page. Otherwise its mapping is advised against huge pages first, so that khugepaged does not fill the holes again.
 *
 * SPARSE-1  a block that is taken out of free_bits here is nowhere else, and comes back to its slab, whatever heap
 *           owns it then. Until then it is held (superslab/purge.h): who finds no memory waits for it.
 *
 * Time is an argument. Called by the helper thread or by a trim; several callers at once do no harm.
 */
#pragma once

#include "base/base.h"

typedef struct sparse_result {
    size_t purged_bytes;
    size_t waiting_bytes; /* free bytes in slabs that have not been idle for long enough */
    size_t looked_at_bytes;
} sparse_result_t;

/* Looks at some of the superslabs in use, and goes on behind them the next time: at all of them in about eight calls.
 * Slabs count that have been idle for 1 / `part` of the delay; `delay_ms` is the whole delay. */
sparse_result_t sparse_round_within(uint64_t now_ms, uint64_t delay_ms, unsigned part);

/* Looks at all slabs, and takes every one for idle. Returns the bytes given back. */
size_t sparse_trim(void);
