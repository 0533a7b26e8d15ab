/* SPDX-License-Identifier: MIT
 *
 * calls.h: the rest of the C library's allocation functions, with its rules for arguments and errno; shared by the libc
 * names (shim/) and the hak_ names (api/). Source: malloc(3), posix_memalign(3), malloc_usable_size(3), ISO C23 7.24.3.
 */
#pragma once

#include "base/base.h"

void *front_realloc(void *block, size_t size);

/* memalign and aligned_alloc. Any alignment: rounded up to a power of two, as glibc did until 2.38 and as costs nobody
 * anything. */
void *front_memalign(size_t align, size_t size);

/* ... and calloc and realloc of such. */
void *front_aligned_calloc(size_t align, size_t size);
void *front_aligned_realloc(void *block, size_t align, size_t size);

int front_posix_memalign(void **out, size_t align, size_t size);
void *front_valloc(size_t size);
void *front_pvalloc(size_t size);
size_t front_usable_size(const void *block);
