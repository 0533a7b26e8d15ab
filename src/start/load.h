/* SPDX-License-Identifier: MIT
 *
 * load.h: what happens to the heap when the library is loaded and when the process exits.
 */
#pragma once

#include "base/base.h"

/* HAKMEM_WARMUP: makes `bytes` of slots resident and fills the calling thread's magazines. */
void heap_warm_up(size_t bytes);

/* Last checks of the calling thread's heap when the process exits. */
void heap_at_exit(void);
