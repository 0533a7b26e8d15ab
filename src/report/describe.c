/* SPDX-License-Identifier: MIT */
#include "report/describe.h"

#include "core/panic.h"
#include "heap/heap.h"
#include "heap/nothing.h"
#include "heap/search.h"
#include "large/huge.h"
#include "region/region.h"
#include "watch/guard.h"

static HK_SNAPSHOT void describe_slab(const void *ptr, uint32_t entry, hk_description_t *out) {
    hk_assert(!map_is_run(entry) && entry != 0);
    unsigned cls = entry & HK_MAP_CLASS_MAX;
    const slab_t *slab = slab_of(ptr, cls);
    unsigned index = class_block_index(&hk_classes[cls], ptr), last = hk_class_info[cls].block_count - 1u;
    out->where = index > last ? HK_WHERE_SLAB_TAIL : HK_WHERE_BLOCK;
    index = index > last ? last : index;
    out->block_size = hk_class_info[cls].block_size;
    out->block = slab_base(slab) + index * out->block_size;
    out->owner = entry >> 8;
    out->is_free = heap_finds_free(out->block, cls);
}

static HK_SNAPSHOT void describe_large(const void *ptr, hk_description_t *out) {
    out->where = HK_WHERE_LARGE;
    out->block = large_start(ptr);
    out->block_size = large_size(out->block);
    uint32_t entry = map_lookup(out->block);
    bool tagged = entry != HK_MAP_RUN_HEAD && entry != 0;
    out->is_free = !large_is_live(out->block) || (tagged && heap_finds_free(out->block, entry & HK_MAP_CLASS_MAX));
}

static bool describe_outside(const void *ptr, hk_description_t *out) {
    void *start;
    size_t size;
    /* First: in a window that the kernel chose, others may have mapped where our records could come one day. */
    if (huge_find_try(ptr, &start, &size)) {
        out->where = HK_WHERE_HUGE;
        out->block = start;
        out->block_size = size;
        return true;
    }
    if (!region_area_has(ptr))
        return false;
    out->where = HK_WHERE_METADATA;
    return true;
}

bool hk_describe(const void *ptr, hk_description_t *out) {
    *out = (hk_description_t){.where = HK_WHERE_NOT_OURS};
    size_t slot = map_slot(ptr);
    uint32_t entry = slot < map_count() ? map_entry(slot) : 0;
    if (map_is_run(entry))
        describe_large(ptr, out);
    else if (entry != 0)
        describe_slab(ptr, entry, out);
    else if (slot < map_count())
        out->where = HK_WHERE_FREE_SLOT;
    else if (!describe_outside(ptr, out))
        return false;
    if (out->block != NULL)
        out->offset = (size_t)((uintptr_t)ptr - (uintptr_t)out->block);
    return true;
}

bool hk_owns(const void *ptr) {
    hk_description_t found;
    void *start;
    size_t size;
    if (nothing_is_live(ptr) || guard_owns(ptr))
        return true;
    if (!hk_describe(ptr, &found) || found.where == HK_WHERE_METADATA)
        return huge_find(ptr, &start, &size); /* hk_describe does not wait for the registry */
    return found.block != NULL && !found.is_free && found.where != HK_WHERE_SLAB_TAIL;
}
