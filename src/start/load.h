/* SPDX-License-Identifier: MIT
 *
 * load.h: what happens to the heap when the library is loaded and when the process exits.
 */
#pragma once

#include "base/base.h"
#include "core/lock.h"

/* HAKMEM_WARMUP: makes `bytes` of slots resident and fills the calling thread's magazines. */
void heap_warm_up(size_t bytes);

/* Last checks of the calling thread's heap when the process exits. */
void heap_at_exit(void);

/* A lock that nobody may wait for at exit, NULL: all locks can be had. A handler that calls exit may have interrupted a
 * call of this thread that holds one. When it is the sampler's, it is the only one. The allocator has started. */
const hk_lock_t *heap_stuck_at_exit(void);

/* The message about what is left out then. */
#define HEAP_STUCK_AT_EXIT "%s: a signal handler that has interrupted malloc or free called exit"
