/* SPDX-License-Identifier: MIT
 *
 * front.h of a test: the system's malloc behind the names of front/front.h, which can be told to be out of memory, and
 * which notes what it was asked.
 */
#ifndef HK_FRONT_H
#define HK_FRONT_H

#include "base/base.h"
#include "fake_front.h"

#include <errno.h>
#include <stdlib.h>

HK_INLINE void *fake_note(void *p, size_t size, size_t alignment) {
    fake_front.allocs += p != NULL;
    fake_front.size = size;
    fake_front.alignment = alignment;
    if (p == NULL)
        errno = ENOMEM;
    return p;
}

HK_INLINE void *front_malloc(size_t size) {
    return fake_note(fake_front.empty || size > PTRDIFF_MAX ? NULL : malloc(size), size, 0);
}

HK_INLINE void *front_aligned(size_t alignment, size_t size) {
    bool refused = fake_front.empty || (alignment & (alignment - 1)) != 0;
    return fake_note(refused ? NULL : aligned_alloc(alignment, size), size, alignment);
}

HK_INLINE void front_free(void *p) {
    fake_front.frees++;
    fake_front.verb = NULL;
    free(p);
}

HK_INLINE void front_free_sized(void *p, size_t size, const char *verb) {
    front_free(p);
    fake_front.size = size;
    fake_front.verb = verb;
}

HK_INLINE void front_free_aligned_sized(void *p, size_t alignment, size_t size, const char *verb) {
    front_free_sized(p, size, verb);
    fake_front.alignment = alignment;
}

#endif
