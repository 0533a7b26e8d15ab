/* SPDX-License-Identifier: MIT */
#include "slab/size_class.h"

#include "core/panic.h"
#include "region/region.h"

enum {
    SLAB_BLOCKS_MIN = 8,   /* fewer blocks a slab are not worth its records */
    SLAB_WASTE_SHARE = 32, /* the tail of a slab is at most this part of it */
    BIG_BLOCK = 32 * 1024, /* of blocks above, a program has a few of each size: slabs of fewer of them empty sooner */
    BIG_BLOCKS_MIN = 4,
    BIG_WASTE_SHARE = 10,
    SLAB_ORDER_MAX = 5, /* 32 slots, a superslab */
    MAGAZINE_BLOCKS_MAX = 4096,
    MAGAZINE_BLOCKS_FIRST = 16,
    MAGAZINE_BYTES_TINY = 256 * 1024,
    MAGAZINE_BYTES_MID = 512 * 1024,
    MAGAZINE_BYTES_LARGE = 2 * 1024 * 1024,
    MAGAZINE_BYTES_FIRST = 4096,
};

size_class_t hk_classes[HK_MAGAZINE_COUNT];
size_class_info_t hk_class_info[HK_MAGAZINE_COUNT];

static uint32_t size_of_class(unsigned cls) {
    if (cls < HK_TINY_CLASSES)
        return (cls + 1) * 16;
    unsigned mid = cls - HK_TINY_CLASSES;
    return (9 + mid % 8) << (7 + mid / 8);
}

static unsigned slab_order(uint32_t size) {
    size_t blocks_min = size > BIG_BLOCK ? BIG_BLOCKS_MIN : SLAB_BLOCKS_MIN;
    size_t waste_share = size > BIG_BLOCK ? BIG_WASTE_SHARE : SLAB_WASTE_SHARE;
    for (unsigned order = 0; order < SLAB_ORDER_MAX; order++) {
        size_t slab = HK_SLOT_SIZE << order;
        if (slab / size >= blocks_min && slab % size <= slab / waste_share)
            return order;
    }
    return SLAB_ORDER_MAX;
}

static void class_init(unsigned cls) {
    hk_assert(cls < HK_CLASS_COUNT);
    uint32_t size = size_of_class(cls);
    unsigned order = slab_order(size);
    hk_assert(order == 0 || cls >= HK_ALONE_FIRST);
    uint32_t slab_size = (uint32_t)(HK_SLOT_SIZE << order);
    uint32_t count = slab_size / size;
    uint64_t inverse = UINT64_MAX / size + 1;
    uint64_t excess = inverse * size; /* modulo 2^64 */
    hk_classes[cls] = (size_class_t){inverse, excess == 0 ? 1 : (uint32_t)(excess * count), slab_size - 1};
    size_t budget = cls < HK_TINY_CLASSES ? MAGAZINE_BYTES_TINY : MAGAZINE_BYTES_MID;
    size_t most = hk_max(2, hk_min(budget / size, MAGAZINE_BLOCKS_MAX));
    size_t first = hk_max(2, hk_min(MAGAZINE_BYTES_FIRST / size, MAGAZINE_BLOCKS_FIRST));
    hk_class_info[cls] = (size_class_info_t){
        .block_size = size,
        .block_count = (uint16_t)count,
        .slab_slots = (uint8_t)(1u << order),
        .magazine_max = (uint16_t)most,
        .magazine_min = (uint16_t)first,
    };
}

/* A run starts at a slot, and is the only block there. */
static void large_class_init(unsigned cls) {
    hk_assert(cls >= HK_CLASS_COUNT && cls < HK_MAGAZINE_COUNT);
    uint32_t size = size_of_class(cls);
    hk_classes[cls] = (size_class_t){1, 1, HK_SLOT_SIZE - 1};
    hk_class_info[cls] = (size_class_info_t){
        .block_size = size,
        .block_count = 1,
        .slab_slots = (uint8_t)((size + HK_SLOT_SIZE - 1) >> HK_SLOT_SHIFT),
        .magazine_max = (uint16_t)hk_max(1, MAGAZINE_BYTES_LARGE / size),
        .magazine_min = 1,
    };
}

void classes_init(void) {
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        class_init(cls);
    for (unsigned cls = HK_CLASS_COUNT; cls < HK_MAGAZINE_COUNT; cls++)
        large_class_init(cls);
}

/* Rounded up, the size has a class of its own, or one whose distance from the next is a multiple of `align`: each block
 * is a multiple of it, as slabs are. */
unsigned class_of_aligned(size_t size, size_t align) {
    hk_assert(hk_is_pow2(align));
    if (align > HK_MID_MAX || size > HK_MID_MAX)
        return HK_CLASS_COUNT;
    size = hk_align_up(hk_max(size, 1), align);
    if (size > HK_MID_MAX)
        return HK_CLASS_COUNT;
    unsigned cls = class_of(size);
    hk_assert(hk_class_info[cls].block_size % align == 0);
    return cls;
}
