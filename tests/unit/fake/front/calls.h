/* SPDX-License-Identifier: MIT
 *
 * calls.h of a test: see front.h beside it.
 */
#ifndef HK_CALLS_H
#define HK_CALLS_H

#include "front/front.h"

#include <malloc.h>

HK_INLINE void front_free_sized(void *p, size_t size, const char *verb) {
    front_free(p);
    fake_front.size = size;
    fake_front.verb = verb;
}

HK_INLINE size_t front_usable_size(const void *p) { return malloc_usable_size((void *)(uintptr_t)p); }

HK_INLINE void front_free_aligned_sized(void *p, size_t alignment, size_t size, const char *verb) {
    front_free_sized(p, size, verb);
    fake_front.alignment = alignment;
}

#endif
