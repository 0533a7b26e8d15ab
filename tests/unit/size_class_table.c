/* SPDX-License-Identifier: MIT
 *
 * Size classes: every size up to 4 MiB in the smallest class that holds it, waste within its bound, slabs and magazines
 * within theirs, and every alignment served.
 */
#include "region/region.h"
#include "rooms.h"
#include "slab/slab.h"

static void classes(void) {
    CHECK_EQ(hk_class_info[0].block_size, 16);
    CHECK_EQ(hk_class_info[HK_TINY_CLASSES - 1].block_size, HK_TINY_MAX);
    CHECK_EQ(hk_class_info[HK_CLASS_COUNT - 1].block_size, HK_MID_MAX);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        const size_class_info_t *info = &hk_class_info[cls];
        size_t slab = (size_t)info->slab_slots * HK_SLOT_SIZE;
        CHECK(cls == 0 || info->block_size > info[-1].block_size);
        CHECK_EQ(info->block_size % HK_ALIGNMENT, 0);
        CHECK(hk_is_pow2(info->slab_slots) && info->slab_slots <= HK_SLOTS_PER_SUPERSLAB);
        CHECK(cls >= HK_TINY_CLASSES || info->slab_slots == 1);
        CHECK_EQ(info->block_count, slab / info->block_size);
        bool big = info->block_size > 32 * 1024;
        CHECK(info->block_count >= (big ? 4 : 8) && info->block_count <= 4096);
        CHECK_EQ(hk_classes[cls].mask, slab - 1);
        /* The tail that no block takes. */
        CHECK(slab % info->block_size <= slab / (big ? 10 : 32) || info->slab_slots == HK_SLOTS_PER_SUPERSLAB);
        CHECK(slab % info->block_size <= slab / 10);
        CHECK(info->magazine_min >= 2 && info->magazine_min <= info->magazine_max && info->magazine_max <= 4096);
        CHECK((size_t)info->magazine_min * info->block_size <= 4096 || info->magazine_min == 2);
    }
}

static void large_classes(void) {
    CHECK_EQ(hk_class_info[HK_MAGAZINE_COUNT - 1].block_size, HK_MAGAZINE_SIZE_MAX);
    for (unsigned cls = HK_CLASS_COUNT; cls < HK_MAGAZINE_COUNT; cls++) {
        const size_class_info_t *info = &hk_class_info[cls];
        CHECK(info->block_size > info[-1].block_size);
        CHECK_EQ(info->block_count, 1);
        CHECK_EQ(info->slab_slots, (info->block_size + HK_SLOT_SIZE - 1) / HK_SLOT_SIZE);
        CHECK(info->magazine_min == 1 && info->magazine_max >= 1);
        for (size_t offset = 0; offset < HK_SLOT_SIZE; offset++)
            CHECK_EQ(class_is_block(&hk_classes[cls], (char *)0x5a5ae00000 + offset), offset == 0);
    }
}

static void sizes(void) {
    for (size_t size = 1; size <= HK_MAGAZINE_SIZE_MAX; size++) {
        unsigned cls = class_of(size);
        CHECK(cls < (size <= HK_MID_MAX ? (unsigned)HK_CLASS_COUNT : (unsigned)HK_MAGAZINE_COUNT));
        size_t block = hk_class_info[cls].block_size;
        CHECK(block >= size);
        CHECK(cls == 0 || hk_class_info[cls - 1].block_size < size);
        CHECK(size <= HK_TINY_MAX ? block - size < 16 : (block - size) * 8 < size);
        if (size > HK_TINY_MAX)
            CHECK_EQ(class_of_mid(size - 1), cls);
    }
}

/* Slabs are aligned to their own size, so the offset of a block tells its alignment up to there. */
static bool serves(unsigned cls, size_t size, size_t align) {
    const size_class_info_t *info = &hk_class_info[cls];
    return info->block_size >= size && info->block_size % align == 0 &&
           align <= (size_t)info->slab_slots * HK_SLOT_SIZE;
}

static void aligned_size(size_t size, size_t align) {
    unsigned cls = class_of_aligned(size, align), smallest = 0;
    while (smallest < HK_CLASS_COUNT && !serves(smallest, size, align))
        smallest++;
    CHECK_EQ(cls, smallest);
}

static void aligned(void) {
    static const size_t odd[] = {0,    1,    15,   16,   17,    100,   1000,   1024,
                                 1025, 4095, 4096, 4097, 30000, 65536, 131073, 262143};
    for (size_t align = 1; align <= HK_MID_MAX; align *= 2) {
        for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
            aligned_size(odd[i], align);
        for (size_t size = 1; size <= HK_MID_MAX; size += 509)
            aligned_size(size, align);
        aligned_size(HK_MID_MAX, align);
    }
    for (unsigned shift = 0; shift < 64; shift++) {
        CHECK_EQ(class_of_aligned(HK_MID_MAX + 1, (size_t)1 << shift), HK_CLASS_COUNT);
        CHECK_EQ(class_of_aligned(SIZE_MAX, (size_t)1 << shift), HK_CLASS_COUNT);
        if (((size_t)1 << shift) > HK_MID_MAX)
            CHECK_EQ(class_of_aligned(1, (size_t)1 << shift), HK_CLASS_COUNT);
    }
}

int main(void) {
    classes_init();
    classes();
    large_classes();
    sizes();
    aligned();
    return CHECK_PASS;
}
