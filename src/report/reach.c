/* SPDX-License-Identifier: MIT */
#include "report/reach.h"

#include "base/bits.h"
#include "core/mappings.h"
#include "large/huge.h"
#include "large/large.h"
#include "map/map.h"
#include "region/area.h"
#include "sample/tables.h"
#include "slab/size_class.h"
#include "sys/sys.h"

#include <string.h>

enum { ROOM_MORE = 1024, PAGE = 4096 };

bool reach_begin(reach_t *reach, size_t count) {
    reach->capacity = count + ROOM_MORE;
    reach->mapped = hk_align_up(reach->capacity * (sizeof *reach->blocks + sizeof *reach->waiting), sys_page_size());
    reach->blocks = sys_map(reach->mapped);
    reach->waiting = (uint32_t *)(reach->blocks + reach->capacity);
    return reach->blocks != NULL;
}

void reach_end(reach_t *reach) { (void)sys_unmap(reach->blocks, reach->mapped); }

/* --- Sorting ------------------------------------------------------------------------------------------------------ */

static void sift(reach_block_t *blocks, size_t at, size_t count) {
    const reach_block_t moved = blocks[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && blocks[child + 1].start > blocks[child].start)
            child++;
        if (blocks[child].start <= moved.start)
            break;
        blocks[at] = blocks[child];
    }
    blocks[at] = moved;
}

/* A heap sort: no memory, no bad case. */
static void sort(reach_block_t *blocks, size_t count) {
    for (size_t at = count / 2; at-- > 0;)
        sift(blocks, at, count);
    for (size_t last = count; last-- > 1;) {
        const reach_block_t top = blocks[0];
        blocks[0] = blocks[last];
        blocks[last] = top;
        sift(blocks, 0, last);
    }
}

/* --- Words -------------------------------------------------------------------------------------------------------- */

/* The block that the address is in; NULL when it is in none. */
static reach_block_t *find(reach_t *reach, uintptr_t address) {
    size_t from = 0, to = reach->count; /* the block before `to` starts at or below it */
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (reach->blocks[middle].start <= address)
            from = middle + 1;
        else
            to = middle;
    }
    reach_block_t *block = from > 0 ? &reach->blocks[from - 1] : NULL;
    return block != NULL && address - block->start < block->size ? block : NULL;
}

static void see_word(reach_t *reach, uintptr_t word) {
    reach_block_t *block = word >= reach->low && word < reach->high ? find(reach, word) : NULL;
    if (block == NULL || block->reached != 0)
        return;
    block->reached = 1;
    reach->waiting[reach->waiting_count++] = (uint32_t)(block - reach->blocks);
}

/* Others may unmap it meanwhile: each page is asked for. */
__attribute__((no_sanitize("address", "thread"))) static void see_range(reach_t *reach, uintptr_t start,
                                                                        uintptr_t end) {
    for (uintptr_t page = hk_align_up(start, sizeof(uintptr_t)); page < end;) {
        const uintptr_t page_end = hk_min(hk_align_down(page, PAGE) + PAGE, end);
        const bool readable = sys_is_readable(page);
        for (; readable && page + sizeof(uintptr_t) <= page_end; page += sizeof(uintptr_t))
            see_word(reach, *(const volatile uintptr_t *)page);
        page = page_end;
    }
}

static void see_waiting(reach_t *reach) {
    while (reach->waiting_count > 0) {
        const reach_block_t *block = &reach->blocks[reach->waiting[--reach->waiting_count]];
        see_range(reach, block->start, block->start + block->size);
    }
}

/* --- Blocks that are not sampled ---------------------------------------------------------------------------------- */

static void see_slot(reach_t *reach, slot_t slot) {
    const uint32_t entry = map_entry(slot);
    const uintptr_t start = (uintptr_t)map_slot_address(slot);
    if (entry == HK_MAP_RUN_HEAD) {
        if (find(reach, start) == NULL && large_is_live((const void *)start))
            see_range(reach, start, start + large_size((const void *)start));
        return;
    }
    if (entry == 0 || entry == HK_MAP_RUN_BODY)
        return;
    const size_t size = hk_class_info[entry & HK_MAP_CLASS_MAX].block_size;
    for (uintptr_t at = start; at < start + HK_SLOT_SIZE; at += HK_ALIGNMENT)
        if (map_is_live(map_granule((const void *)at)))
            see_range(reach, at, at + size);
}

static void see_huge(void *reach, const void *start, size_t size) {
    if (find(reach, (uintptr_t)start) == NULL)
        see_range(reach, (uintptr_t)start, (uintptr_t)start + size);
}

/* --- What the program has mapped ---------------------------------------------------------------------------------- */

static bool is_in(uintptr_t address, uintptr_t start, size_t size) { return address - start < size; }

/* Ours: the window and its areas, the tables of the profile, and the list that is being made. */
static bool is_ours(const reach_t *reach, uintptr_t address) {
    const uintptr_t window = (uintptr_t)map_slot_address(0);
    void *start;
    size_t size;
    if (is_in(address, window, map_count() << HK_SLOT_SHIFT) || region_area_has((const void *)address) ||
        is_in(address, (uintptr_t)reach->blocks, reach->mapped) || huge_find_try((const void *)address, &start, &size))
        return true;
    for (unsigned i = 0; i < PROFILE_SECTIONS; i++)
        if (is_in(address, hk_profile.sections[i].place, hk_profile.sections[i].bytes))
            return true;
    return false;
}

static bool see_mapping(const hk_mapping_t *mapping, void *argument) {
    reach_t *reach = argument;
    if (!mapping->readable || !mapping->writable || strncmp(mapping->name, "/dev/", 5) == 0)
        return true;
    uintptr_t start = mapping->start;
    if (is_in(reach->frame, mapping->start, mapping->end - mapping->start))
        start = reach->frame;
    /* Neighbours may be one mapping, so by pages. */
    for (uintptr_t page = start; page < mapping->end; page = hk_align_down(page, PAGE) + PAGE)
        if (!is_ours(reach, page))
            see_range(reach, page, hk_min(hk_align_down(page, PAGE) + PAGE, mapping->end));
    return true;
}

bool reach_mark(reach_t *reach) {
    if (reach->count == 0)
        return true;
    sort(reach->blocks, reach->count);
    reach->low = reach->blocks[0].start;
    reach->high = reach->blocks[reach->count - 1].start + reach->blocks[reach->count - 1].size;
    if (!hk_mappings_read(see_mapping, reach))
        return false;
    for (size_t slot = 0; slot < map_count(); slot++)
        see_slot(reach, (slot_t)slot);
    huge_for_each(see_huge, reach);
    see_waiting(reach);
    return true;
}
