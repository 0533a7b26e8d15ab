/* SPDX-License-Identifier: MIT */
#include "front/calls.h"

#include "base/bits.h"
#include "front/front.h"
#include "sys/sys.h"

#include <errno.h>

#define CALLER() __builtin_return_address(0)

/* An own slab block whose class serves the new size too stays where it is. */
static bool fits_already(const void *block, size_t size) {
    granule_t granule = map_granule(block);
    uint32_t cls = front_class(hk_front, granule);
    return cls < HK_CLASS_COUNT && size - 1 < HK_MID_MAX && class_of(size) == cls && map_is_live(granule);
}

void *front_realloc(void *block, size_t size) {
    if (block == NULL)
        return front_malloc(size);
    return hk_likely(fits_already(block, size)) ? block : heap_realloc(block, size, CALLER());
}

void *front_reallocarray(void *block, size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return heap_realloc(block, total, CALLER());
}

void *front_memalign(size_t align, size_t size) {
    if (align > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    if (align <= HK_ALIGNMENT)
        return front_malloc(size);
    return heap_aligned((size_t)1 << hk_log2_ceil(align), size);
}

int front_posix_memalign(void **out, size_t align, size_t size) {
    if (!hk_is_pow2(align) || align % sizeof(void *) != 0)
        return EINVAL;
    void *block = heap_aligned(align, size);
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}

void *front_valloc(size_t size) { return heap_aligned(sys_page_size(), size); }

void *front_pvalloc(size_t size) {
    size_t page = sys_page_size();
    size_t rounded = hk_align_up(size, page);
    if (rounded < size) {
        errno = ENOMEM;
        return NULL;
    }
    return heap_aligned(page, hk_max(rounded, page));
}

size_t front_usable_size(const void *block) { return heap_usable_size(block, CALLER()); }
