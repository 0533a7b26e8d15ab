/* SPDX-License-Identifier: MIT
 *
 * guard.h: HAKMEM_GUARD=N: at every safety level, a block in N bytes that are allocated has a place of its own between
 * pages that nobody may touch.
 *
 *   | closed page | cell 0 | closed page | cell 1 | closed page | ...      a cell: GUARD_CELL_PAGES pages
 *
 * Every other block ends flush at the page behind it, the others begin flush at the page before. A block that is freed
 * is closed, and stays so until its cell's turn comes round. A touch of what is closed is a SIGSEGV; the handler
 * reports the access and the stacks of the touch, of the allocation and of the free, and lets happen what would have
 * happened without it: the program's own handler, or the end. A handler that the program installs takes the place of
 * ours until the next guarded block is allocated, which puts ours in front of it again. Each signal passes ours once: a
 * handler that hands on to the one before it reaches what was there when the program started. The handler needs about 4
 * KiB of stack besides the kernel's frame.
 *
 *   state of a cell:   EMPTY --alloc--> BUSY --> LIVE --free--> BUSY --> CLOSED --alloc, a round later--> BUSY
 *
 * GUARD-1  Who brings a cell from EMPTY, LIVE or CLOSED to BUSY, by a compare-and-swap, is the only one that writes to
 *          its record until it leaves BUSY. No lock: a fork may come at any time, and costs the child the cells that
 *          are BUSY then.
 * GUARD-2  Pages of a cell are open exactly while it is LIVE, or BUSY on the way there or back.
 */
#pragma once

#include "base/base.h"
#include "watch/describe.h"
#include "watch/stack.h"

#include <stdatomic.h>

enum { GUARD_CELLS = 64, GUARD_CELL_PAGES = 16 };

/* Bytes from one guarded block to the next, on average; 0: none. Written once by guard_init. */
extern _Atomic uint64_t hk_guard_interval;

/* Acquire: pairs with the release in guard_init; who finds one finds the cells. */
HK_INLINE uint64_t guard_interval(void) { return atomic_load_explicit(&hk_guard_interval, memory_order_acquire); }

/* Follows the option. Once, by the first thread; after crash_report_init, whose handler comes after ours. */
void guard_init(void);

/* Whether a thread puts our handler in front: it alone, under this. */
extern _Atomic bool hk_guard_installs HK_HIDDEN;

/* In the child of a fork, where another thread that was at it does not exist. */
HK_INLINE void guard_after_fork(void) { atomic_store_explicit(&hk_guard_installs, false, memory_order_relaxed); }

/* Bytes to the next guarded block: a random number, of which `*state` is the generator's. */
int64_t guard_distance(uint64_t *state);

/* Whether a cell has room for it. */
bool guard_fits(size_t size, size_t align);

/* NULL when all cells are taken, memory is out, or the last guarded block was a moment ago. It fits. `align` is a power
 * of two. The memory reads as zeros. `caller` asked for it. */
void *guard_alloc(size_t size, size_t align, const void *caller);

/* Whether the address lies between the first cell and the last. */
bool guard_holds(const void *address);

/* What lies at an address that guard_holds: the block in front of it, or none. */
void guard_describe(const void *address, hk_description_t *out);

/* Whether a live block begins there, and its size; reports in the name of `verb` otherwise. */
bool guard_find(const char *verb, const void *block, size_t *size, const void *caller);

/* What is kept of the block that begins there, or began there last; false: there is none. */
bool guard_stacks(const void *block, size_t *asked, stack_trace_t *allocated, stack_trace_t *freed);

/* Frees the block that begins there, or reports. */
void guard_free(const void *block, const void *caller);
