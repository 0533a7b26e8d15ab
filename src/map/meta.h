/* SPDX-License-Identifier: MIT
 *
 * meta.h: memory for our own records that are not arrays of the window: magazines, tables, lists.
 *
 * Sizes are rounded to powers of two (64 bytes at least); freed pieces wait in a list per size, linked inside the
 * metadata range, which no pointer of the program reaches. Contents of a fresh piece are undefined. Thread-safe.
 */
#pragma once

#include "base/base.h"
#include "core/lock.h"

extern hk_lock_t hk_meta_lock;

/* NULL when memory is out. `size` up to 16 MiB. */
void *meta_alloc(size_t size);
void meta_free(void *piece, size_t size);

/* The size that meta_alloc rounds `size` up to. */
size_t meta_good_size(size_t size);
