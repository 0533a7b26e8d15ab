/* SPDX-License-Identifier: MIT
 *
 * init.h: the allocator starts, by whoever allocates first.
 */
#pragma once

#include "base/base.h"

/* True when the allocator works. The first caller starts it; when there is no memory for that, a later one. */
bool init_ensure(void);

/* False before the first allocation. Starts nothing. */
bool heap_system_has_started(void);

/* A thread has begun the start, and has not ended it. */
bool heap_system_is_starting(void);
