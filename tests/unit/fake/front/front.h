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

HK_INLINE void *heap_malloc_slow(size_t size) { return front_malloc(size); }

HK_INLINE void *front_malloc_or(size_t size, void *(*slow)(size_t)) {
    void *p = front_malloc(size);
    return p != NULL ? p : slow(size);
}

HK_INLINE void *front_aligned(size_t alignment, size_t size) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        abort(); /* front.h asks for a power of two */
    return fake_note(fake_front.empty ? NULL : aligned_alloc(alignment, size), size, alignment);
}

HK_INLINE void front_free(void *p) {
    fake_front.frees++;
    fake_front.verb = NULL;
    free(p);
}

#endif
