/* SPDX-License-Identifier: MIT */
#include "report/reach.h"

#include "base/bits.h"
#include "core/mappings.h"
#include "large/huge.h"
#include "large/fence.h"
#include "large/large.h"
#include "map/map.h"
#include "region/area.h"
#include "sample/tables.h"
#include "slab/size_class.h"
#include "sys/sys.h"
#include "sys/tags.h"

#include <string.h>

enum {
    ROOM_MORE = 1024,
    PIECE = HK_SLOT_SIZE, /* bytes that are copied at once */
    WINDOW_PAGES = 4096,  /* pages that are asked for at once, */
    WINDOW_MIN = 1 << 20, /* ... where so many bytes are to be looked at */
};

bool reach_begin(reach_t *reach, size_t count) {
    reach->capacity = count + ROOM_MORE;
    const size_t lists = reach->capacity * (sizeof *reach->blocks + sizeof *reach->waiting);
    reach->mapped = hk_align_up(PIECE + WINDOW_PAGES + lists, sys_page_size());
    reach->copy = sys_map(reach->mapped);
    if (reach->copy == NULL)
        return false;
    reach->pages = (unsigned char *)reach->copy + PIECE;
    reach->blocks = (reach_block_t *)(reach->pages + WINDOW_PAGES);
    reach->waiting = (uint32_t *)(reach->blocks + reach->capacity);
    return true;
}

void reach_end(reach_t *reach) { (void)sys_unmap(reach->copy, reach->mapped); }

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

static void see_word(reach_t *reach, uintptr_t seen) {
    const uintptr_t word = tags_strip_word(seen);
    reach_block_t *block = word >= reach->low && word < reach->high ? find(reach, word) : NULL;
    if (block == NULL || block->reached != 0)
        return;
    block->reached = 1;
    reach->waiting[reach->waiting_count++] = (uint32_t)(block - reach->blocks);
}

static void see_words(reach_t *reach, const char *at, size_t size) {
    for (const uintptr_t *word = (const uintptr_t *)at; size >= sizeof *word; size -= sizeof *word)
        see_word(reach, *word++);
}

/* Up to PIECE bytes. Others may unmap them meanwhile, so a copy is read. */
static void see_piece(reach_t *reach, uintptr_t from, uintptr_t to) {
    while (from < to) {
        const size_t got = sys_copy(reach->copy, from, hk_align_down(to - from, sizeof(uintptr_t)));
        see_words(reach, reach->copy, got);
        from = hk_align_down(from + got, sys_page_size()) + sys_page_size();
    }
}

static bool is_in(uintptr_t address, uintptr_t start, size_t size) { return address - start < size; }

/* On pages of a table of the profile; small ones share pages with each other and with nothing else. */
static bool is_in_table(uintptr_t address, const profile_section_t *table) {
    const uintptr_t first = hk_align_down((uintptr_t)table->place, sys_page_size());
    return table->bytes > 0 && is_in(address, first, (uintptr_t)table->place - first + table->bytes);
}

/* Ours: the window and its areas, the tables of the profile, and the lists that are being made. */
static bool is_ours(const reach_t *reach, uintptr_t address) {
    const uintptr_t window = (uintptr_t)map_slot_address(0);
    void *start;
    size_t size;
    if (is_in(address, window, map_count() << HK_SLOT_SHIFT) || region_area_has((const void *)address) ||
        is_in(address, (uintptr_t)reach->copy, reach->mapped) || huge_find_try((const void *)address, &start, &size))
        return true;
    for (unsigned i = 0; i < PROFILE_SECTIONS; i++)
        if (is_in_table(address, &hk_profile.sections[i]))
            return true;
    return false;
}

typedef enum range { RANGE_OF_BLOCK, RANGE_OF_OTHERS } range_t;

/* Up to WINDOW_PAGES. Pages that nobody has written to hold no pointer: of a large reservation they would take
 * minutes. */
static void see_window(reach_t *reach, uintptr_t start, uintptr_t end, range_t kind) {
    const size_t page = sys_page_size();
    const uintptr_t first = hk_align_down(start, page);
    const bool known = end - start >= WINDOW_MIN && sys_touched(first, end - first, reach->pages) == 0;
    uintptr_t from = start;
    for (uintptr_t at = first; at < end; at += page) {
        const bool skip =
            (known && reach->pages[(at - first) / page] == 0) || (kind == RANGE_OF_OTHERS && is_ours(reach, at));
        if (!skip && at + 2 * page - from <= PIECE)
            continue;
        see_piece(reach, from, skip ? at : hk_min(at + page, end));
        from = at + page;
    }
    see_piece(reach, from, end);
}

static void see_range(reach_t *reach, uintptr_t start, uintptr_t end, range_t kind) {
    const size_t window = WINDOW_PAGES * sys_page_size();
    for (uintptr_t at = hk_align_up(start, sizeof(uintptr_t)), next; at < end; at = next) {
        next = hk_min(hk_align_down(at, window) + window, end);
        see_window(reach, at, next, kind);
    }
}

static void see_block(reach_t *reach, uintptr_t start, size_t size) {
    see_range(reach, start, start + size, RANGE_OF_BLOCK);
}

static void see_waiting(reach_t *reach) {
    while (reach->waiting_count > 0) {
        const reach_block_t *block = &reach->blocks[reach->waiting[--reach->waiting_count]];
        see_block(reach, block->start, block->size);
    }
}

/* --- Blocks that are not sampled ---------------------------------------------------------------------------------- */

/* A run with a tag is with the program when its live bit is set. */
static void see_run(reach_t *reach, uint32_t entry, uintptr_t start) {
    const void *block = (const void *)start;
    const bool is_live = large_is_live(block) && (entry == HK_MAP_RUN_HEAD || map_is_live(map_granule(block)));
    if (is_live && find(reach, start) == NULL)
        see_block(reach, start, large_open_size(block));
}

/* Blocks that begin in this slot of a slab: from one copy, as there may be thousands. */
static void see_slab(reach_t *reach, size_t size, uintptr_t start) {
    const uintptr_t end = start + sys_copy(reach->copy, start, HK_SLOT_SIZE);
    for (uintptr_t at = start; at < end; at += HK_ALIGNMENT)
        if (map_is_live(map_granule((const void *)at)))
            see_words(reach, reach->copy + (at - start), hk_min(size, end - at));
    for (uintptr_t at = start; at < start + HK_SLOT_SIZE; at += HK_ALIGNMENT)
        if (at + size > end && map_is_live(map_granule((const void *)at)))
            see_block(reach, hk_max(at, end), at + size - hk_max(at, end));
}

static void see_slot(reach_t *reach, slot_t slot) {
    const uint32_t entry = map_entry(slot);
    const uintptr_t start = (uintptr_t)map_slot_address(slot);
    if (entry == 0 || entry == HK_MAP_RUN_BODY)
        return;
    if (map_is_run(entry))
        see_run(reach, entry, start);
    else
        see_slab(reach, hk_class_info[entry & HK_MAP_CLASS_MAX].block_size, start);
}

static void see_huge(void *reach, const void *start, size_t size) {
    if (find(reach, (uintptr_t)start) == NULL)
        see_block(reach, (uintptr_t)start, size);
}

/* --- What the program has mapped ---------------------------------------------------------------------------------- */

static bool see_mapping(const hk_mapping_t *mapping, void *argument) {
    reach_t *reach = argument;
    if (!mapping->readable || !mapping->writable || strncmp(mapping->name, "/dev/", 5) == 0)
        return true;
    uintptr_t start = mapping->start;
    if (is_in(reach->frame, mapping->start, mapping->end - mapping->start))
        start = reach->frame;
    see_range(reach, start, mapping->end, RANGE_OF_OTHERS);
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
    huge_for_each(see_huge, reach, true);
    see_waiting(reach);
    return true;
}
