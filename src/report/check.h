/* SPDX-License-Identifier: MIT
 *
 * check.h: verifies every invariant of the heap. Any thread, at any time, also before the first allocation.
 */
#pragma once

#include "base/base.h"

/* Verifies every invariant of the heap; returns the violations found, each one line on stderr. */
size_t hk_check_all(void);
