/* SPDX-License-Identifier: MIT
 *
 * quarantine.h: at HAKMEM_SAFE=2 and 3 a freed block waits before it serves again, and must be untouched when it
 * leaves.
 *
 * Blocks of slabs are filled with a pattern. Large blocks wait without pages and must read as zeros. Each heap has a
 * queue of its own, which its thread alone touches, or anybody once the thread is gone.
 */
#ifndef HK_HEAP_QUARANTINE_H
#define HK_HEAP_QUARANTINE_H

#include "heap/heap.h"

/* `level` is 2 or 3. Once, at the start. */
void hardened_init(int level);

/* A word that nobody can guess, another one for each address. */
uint64_t quarantine_word(const void *address);

/* The block waits from now on. `h` may be NULL: then nothing waits. */
void quarantine_put(heap_t *h, void *block, unsigned cls, const void *caller);

/* Fills a block that does not wait: quarantine_look finds what was written to it when it is handed out again. */
void quarantine_fill(void *block, unsigned cls);

/* The run at `block` is held (large_hold). */
void quarantine_put_run(heap_t *h, void *block, const void *caller);

/* A block that is handed out again: reports it when it says that it was freed so and was written to since. */
void quarantine_look(const void *block, unsigned cls, const void *caller);

/* Checks and releases what waits. */
void quarantine_drain(heap_t *h);

#endif
