/* SPDX-License-Identifier: MIT */
#include "front/calls.h"

#include "base/bits.h"
#include "front/front.h"
#include "slow/blocks.h"
#include "slow/realloc.h"
#include "sys/sys.h"

#include <errno.h>
#include <string.h>

#define CALLER() __builtin_return_address(0)

/* An own block of a slab, that will be one of a slab again: all but these go to heap_realloc. */
static void *move_block(void *block, unsigned cls, size_t size) {
    size_t old_size = hk_class_info[cls].block_size;
    int saved = size <= old_size ? errno : 0;
    void *copy = front_malloc(size);
    if (hk_unlikely(copy == NULL))
        return size <= old_size ? heap_keep_whole(block, saved) : NULL;
    memcpy(copy, block, hk_min(old_size, size));
    front_free(block);
    return copy;
}

void *front_realloc(void *block, size_t size) {
    if (block == NULL)
        return front_malloc(size);
    granule_t granule = map_granule(block);
    uint32_t cls = front_class(hk_front, granule);
    if (hk_unlikely(cls >= HK_CLASS_COUNT || size - 1 >= HK_MID_MAX || !map_is_live(granule)))
        return heap_realloc(block, size, CALLER());
    if (heap_block_stays(cls, size))
        return block;
    return heap_grows_little(hk_class_info[cls].block_size, size) ? heap_realloc(block, size, CALLER())
                                                                  : move_block(block, cls, size);
}

/* 0, and EINVAL, where no power of two is as large. */
static size_t alignment_of(size_t align) {
    if (hk_likely(align <= SIZE_MAX / 2 + 1))
        return align <= HK_ALIGNMENT ? HK_ALIGNMENT : (size_t)1 << hk_log2_ceil(align);
    errno = EINVAL;
    return 0;
}

void *front_memalign(size_t align, size_t size) {
    const size_t to = alignment_of(align);
    return to > HK_ALIGNMENT ? front_aligned(to, size) : to != 0 ? front_malloc(size) : NULL;
}

void *front_aligned_calloc(size_t align, size_t size) {
    const size_t to = alignment_of(align);
    return to > HK_ALIGNMENT ? heap_aligned_calloc(to, size, CALLER()) : to != 0 ? front_calloc(1, size) : NULL;
}

void *front_aligned_realloc(void *block, size_t align, size_t size) {
    const size_t to = alignment_of(align);
    return to > HK_ALIGNMENT ? heap_aligned_realloc(block, to, size, CALLER())
           : to != 0         ? front_realloc(block, size)
                             : NULL;
}

int front_posix_memalign(void **out, size_t align, size_t size) {
    if (!hk_is_pow2(align) || align % sizeof(void *) != 0)
        return EINVAL;
    void *block = front_aligned(align, size);
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

size_t front_usable_size(const void *block) {
    granule_t granule = map_granule(block);
    uint32_t entry = map_granule_lookup(granule), cls = entry & HK_MAP_CLASS_MAX;
    bool is_plain = entry != 0 && cls < HK_CLASS_COUNT && hk_front->tag != HK_MAP_NO_TAG && map_is_live(granule);
    return hk_likely(is_plain) ? hk_class_info[cls].block_size : heap_usable_size(block, CALLER());
}
