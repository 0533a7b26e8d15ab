/* SPDX-License-Identifier: MIT
 *
 * sys.h: the operating system, all of this room at once. Raw system calls: nothing here allocates, takes a libc lock,
 * reads thread-local storage or sets errno, so every function may be called from anywhere in the allocator, from a
 * signal handler and from the helper thread (which has no libc thread descriptor).
 *
 * Preconditions, once for all: addresses and sizes are multiples of the page size unless said otherwise. Functions that
 * can fail return 0 or a positive errno value. ENOMEM is an ordinary answer that callers hand on; whether another error
 * is fatal is the caller's decision.
 *
 * Source: man-pages section 2 of the call each function is named after.
 */
#pragma once

#include "base/base.h"
#include "sys/cgroup.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/futex.h"
#include "sys/helper_thread.h"
#include "sys/memory.h"
#include "sys/process.h"
#include "sys/signal_mask.h"
#include "sys/watch_file.h"

#include <errno.h>
#include <stdatomic.h>
