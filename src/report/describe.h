/* SPDX-License-Identifier: MIT
 *
 * describe.h: what an address is. Any thread, at any time, also before the first allocation.
 */
#pragma once

#include "base/base.h"
#include "watch/describe.h"

/* True when `ptr` lies inside a block that is not known to be free. Reads nothing that `ptr` points to. */
bool hk_owns(const void *ptr);

/* What is known of `ptr`; false when it is not ours. Lock-free, reads nothing that `ptr` points to, safe in a signal
 * handler. */
bool hk_describe(const void *ptr, hk_description_t *out);
