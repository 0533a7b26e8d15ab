/* SPDX-License-Identifier: MIT
 *
 * quarantine.h: at HAKMEM_SAFE=2 and 3 a freed block waits before it serves again, and must be untouched when it
 * leaves.
 *
 * Blocks of slabs are zeros (heap/seal.h), large blocks wait without pages: both must still read as zeros then. Each
 * heap has a queue of its own, which its thread alone touches, or anybody once the thread is gone.
 */
#ifndef HK_HEAP_QUARANTINE_H
#define HK_HEAP_QUARANTINE_H

#include "heap/heap.h"

/* `level` is 2 or 3. Once, at the start. */
void hardened_init(int level);

/* The block, which was made zeros and is counted as freed, waits from now on. */
void quarantine_put(heap_t *h, void *block, unsigned cls, const void *caller);

/* So does the run at `block`, which is held (large_hold). `h` may be NULL: then it does not wait. */
void quarantine_put_run(heap_t *h, void *block, const void *caller);

/* Checks and releases what waits, here and in the lanes of the heap. */
void quarantine_drain(heap_t *h);

#endif
