/* SPDX-License-Identifier: MIT
 *
 * size_class.h: block sizes.
 *
 *   class   0 ..  63   tiny   16, 32, ... 1,024 bytes
 *   class  64 .. 127   mid    8 a doubling: 1,152, 1,280, ... 262,144 bytes (12.5 % steps)
 *   class 128 .. 159   large  8 a doubling to 4 MiB: no slabs, but magazines for runs of slots that a thread reuses
 *
 * A tiny or mid class lives in slabs of a power of two slots, naturally aligned, so that the offset of a block in its
 * slab is a mask. Whether that offset is the start of a block is one multiplication (D. Lemire, O. Kaser, N. Kurz,
 * "Faster remainder by direct computation", 2019): with inverse = ceil(2^64 / size), offset * inverse modulo 2^64 is
 * k * e for the multiple k * size (e = inverse * size - 2^64) and at least `inverse` for anything else; so one
 * comparison with limit = block_count * e also excludes the tail of the slab. For powers of two e is 0, limit is 1, and
 * there is no tail. The high half of the product is the index of the block.
 *
 * Constant after classes_init.
 */
#pragma once

#include "base/base.h"
#include "base/bits.h"
#include "core/panic.h"

enum {
    HK_TINY_MAX = 1024,
    HK_TINY_CLASSES = 64,
    HK_MID_MAX = 256 * 1024,
    HK_CLASS_COUNT = 128,        /* classes that have slabs */
    HK_EARNED_ABOVE = 16 * 1024, /* class_is_earned */
    HK_ALONE_FIRST = 72,         /* from 2 KiB on, blocks may lie alone: below, slabs have one slot */
    HK_MAGAZINE_SIZE_MAX = 4 * 1024 * 1024,
    HK_MAGAZINE_COUNT = 160, /* classes that have magazines */
    HK_ALIGNMENT = 16,
};

/* What a free of another heap's block, a flush and every check need to know of a class: one record of 16 bytes. */
typedef struct size_class {
    uint64_t inverse;
    uint32_t limit;
    uint32_t mask; /* slab size - 1 */
} size_class_t;

/* What the slow paths need besides; as large as the record above, so that one offset finds both. */
typedef struct HK_ALIGNED(16) size_class_info {
    uint32_t block_size;
    uint16_t block_count; /* blocks in a slab */
    uint8_t slab_slots;   /* slots in a slab: 1, 2, ... 32 */
    uint8_t padding;
    uint16_t magazine_max; /* largest capacity of a magazine */
    uint16_t magazine_min; /* first capacity of a magazine */
} size_class_info_t;

extern size_class_t hk_classes[HK_MAGAZINE_COUNT] HK_HIDDEN;
extern size_class_info_t hk_class_info[HK_MAGAZINE_COUNT] HK_HIDDEN;

void classes_init(void);

/* Size of the blocks of a tiny class. */
HK_INLINE size_t class_tiny_size(size_t cls) { return (cls + 1) << 4; }

/* Class of `size_minus_1`, HK_TINY_MAX <= size_minus_1 < HK_MAGAZINE_SIZE_MAX. */
HK_INLINE unsigned class_of_mid(size_t size_minus_1) {
    hk_assert(size_minus_1 >= HK_TINY_MAX && size_minus_1 < HK_MAGAZINE_SIZE_MAX);
    unsigned top = hk_msb64(size_minus_1);
    HK_OPAQUE(top); /* one bit scan, not two subtractions from its complement */
    return (unsigned)(size_minus_1 >> (top - 3)) + (top << 3) - (10u << 3) - 8u + HK_TINY_CLASSES;
}

/* Classes of so long blocks get slabs when a thread uses them often, and the slabs serve all threads. */
HK_INLINE bool class_is_earned(unsigned cls) { return hk_class_info[cls].block_size > HK_EARNED_ABOVE; }

/* Class of a size, 1 <= size <= HK_MAGAZINE_SIZE_MAX. */
HK_INLINE unsigned class_of(size_t size) {
    hk_assert(size >= 1 && size <= HK_MAGAZINE_SIZE_MAX);
    return size <= HK_TINY_MAX ? (unsigned)((size - 1) >> 4) : class_of_mid(size - 1);
}

/* Smallest class whose blocks hold `size` bytes at a multiple of `align` (a power of two), or HK_CLASS_COUNT. */
unsigned class_of_aligned(size_t size, size_t align);

/* Slabs are aligned by their size. */
HK_INLINE uint32_t class_slab_offset(const size_class_t *c, const void *address) {
    return (uint32_t)(uintptr_t)address & c->mask;
}

/* Offset of an address in its slab times the inverse: low half for the check, high half for the index. */
HK_INLINE bool class_is_block(const size_class_t *c, const void *address) {
    return class_slab_offset(c, address) * c->inverse < c->limit;
}

HK_INLINE unsigned class_index_at(const size_class_t *c, uint32_t offset) {
    hk_assert(offset <= c->mask);
    return (unsigned)(((unsigned __int128)offset * c->inverse) >> 64);
}

HK_INLINE unsigned class_block_index(const size_class_t *c, const void *address) {
    return class_index_at(c, class_slab_offset(c, address));
}
