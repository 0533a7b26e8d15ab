/* SPDX-License-Identifier: MIT */
#include "report/describe.h"

#include "core/panic.h"
#include "heap/heap.h"
#include "heap/nothing.h"
#include "heap/search.h"
#include "large/fence.h"
#include "large/huge.h"
#include "region/region.h"
#include "sample/sampler.h"
#include "start/fork.h"
#include "sys/tags.h"
#include "watch/guard.h"

/* What lies in a lane is found by its tag: TAG-1. Where blocks are sampled a clear live bit says nothing. */
static bool has_no_tag(const void *block) {
    return tags_are_on() && !sample_was_ever_on() && !map_is_live(map_granule(block)) && tags_load(block) == block;
}

/* What lies behind the slab's last block counts as its tail, and so does all that is_behind the slab. */
static HK_SNAPSHOT void describe_slab(const void *ptr, uint32_t entry, bool is_behind, hk_description_t *out) {
    hk_assert(!map_is_run(entry) && entry != 0);
    unsigned cls = entry & HK_MAP_CLASS_MAX;
    const slab_t *slab = slab_of(ptr, cls);
    unsigned index = is_behind ? UINT32_MAX : class_block_index(&hk_classes[cls], ptr);
    unsigned last = hk_class_info[cls].block_count - 1u;
    out->where = index > last ? HK_WHERE_SLAB_TAIL : HK_WHERE_BLOCK;
    index = index > last ? last : index;
    out->block_size = hk_class_info[cls].block_size;
    out->block = slab_base(slab) + index * out->block_size;
    out->owner = entry >> 8;
    out->is_free = heap_finds_free(out->block, cls) || has_no_tag(out->block);
}

static HK_SNAPSHOT void describe_large(const void *ptr, hk_description_t *out) {
    out->where = HK_WHERE_LARGE;
    out->block = large_start(ptr);
    out->block_size = large_open_size(out->block);
    uint32_t entry = map_lookup(out->block);
    bool tagged = entry != HK_MAP_RUN_HEAD && entry != 0;
    out->is_free = !large_is_live(out->block) || (tagged && heap_finds_free(out->block, entry & HK_MAP_CLASS_MAX));
}

/* The fence behind a slab: who touches it has mostly come from the slab. */
static HK_SNAPSHOT bool describe_slab_fence(const void *ptr, hk_description_t *out) {
    const void *in_front = (const void *)((uintptr_t)ptr - HK_SLOT_SIZE);
    uint32_t entry = map_lookup(in_front);
    if (entry == 0 || map_is_run(entry) || !slab_of(in_front, entry & HK_MAP_CLASS_MAX)->fenced)
        return false;
    describe_slab(in_front, entry, true, out);
    return true;
}

/* Where the slot table has nothing. */
static bool describe_apart(const void *ptr, hk_description_t *out) {
    void *start;
    size_t size;
    if (nothing_holds(ptr)) {
        out->where = HK_WHERE_APART;
        out->block = nothing_at(ptr);
        out->is_free = !nothing_is_live(out->block);
        return true;
    }
    if (guard_holds(ptr)) {
        guard_describe(ptr, out);
        return true;
    }
    /* First: the kernel may have put it where blocks or records could come one day. */
    if (huge_find_try(ptr, &start, &size)) {
        out->where = HK_WHERE_HUGE;
        out->block = start;
        out->block_size = size;
        return true;
    }
    if (map_slot(ptr) < map_count())
        out->where = HK_WHERE_FREE_SLOT;
    else if (region_area_has(ptr))
        out->where = HK_WHERE_METADATA;
    return out->where != HK_WHERE_NOT_OURS;
}

bool hk_describe(const void *pointer, hk_description_t *out) {
    const void *ptr = tags_strip(pointer);
    *out = (hk_description_t){.where = HK_WHERE_NOT_OURS};
    uint32_t entry = map_lookup(ptr);
    if (map_is_run(entry))
        describe_large(ptr, out);
    else if (entry != 0)
        describe_slab(ptr, entry, false, out);
    else if (!describe_slab_fence(ptr, out) && !describe_apart(ptr, out))
        return false;
    if (out->block != NULL)
        out->offset = (size_t)((uintptr_t)ptr - (uintptr_t)out->block);
    return true;
}

bool hk_owns(const void *ptr) {
    hk_description_t found;
    void *start;
    size_t size;
    if (nothing_is_live(ptr))
        return true;
    if (!hk_describe(ptr, &found) || found.block == NULL)
        return fork_attend() && huge_find(ptr, &start, &size); /* hk_describe does not wait for the registry */
    return !found.is_free && found.where != HK_WHERE_SLAB_TAIL &&
           (found.where != HK_WHERE_APART || found.offset < found.block_size);
}
