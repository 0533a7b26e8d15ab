/* SPDX-License-Identifier: MIT
 *
 * free_sized.h: frees that name a size.
 */
#pragma once

#include "base/base.h"

/* Frees after a look whether `align`, a power of two, and `size` are those that the block was asked with. `verb` names
 * the function in reports. */
HK_NOINLINE void heap_free_sized(void *block, size_t align, size_t size, const char *verb);
