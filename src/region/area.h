/* SPDX-License-Identifier: MIT
 *
 * area.h: the areas of our own records, mapped as far as they are needed.
 *
 * An area is an array at a fixed place. What of it is mapped are a few *pieces*: one, as long as superslabs follow each
 * other; another where the region had to step over somebody else's mapping. In the region's own state, the slot table
 * and the superslabs' records what lies between two pieces can be read, as zeros, and costs no memory: whoever looks
 * for the next superslab in use, or at an address that is none of ours, may look there.
 *
 * Each area has callers under one lock: that of the region for the arrays of superslabs, of the heaps' list and of
 * metadata for the two others. Sizes are read by any thread.
 */
#pragma once

#include "region/window.h"

/* Makes bytes [from, to) of an area usable. Returns 0, ENOMEM, or EEXIST when somebody else has mapped there. */
int region_area_cover_part(region_area_t area, size_t from, size_t to);

/* The records of the superslabs [first, first + count). Returns what region_area_cover_part does. */
int area_cover_superslabs(region_area_t area, size_t first, size_t count);

/* Unmaps the area. */
void area_end(region_area_t area);

/* Whether the heap is large enough for huge pages in the areas of slab records, live bits and everything else: from
 * their first border of one on, as they grow. */
void region_earn_huge_records(bool earned);
bool region_has_huge_records(void);

/* Bytes mapped of all areas, and one past the last that is mapped of one. */
size_t region_area_bytes(void);
size_t region_area_size(region_area_t area);

/* Calls `see` for each piece of every area. */
void region_area_for_each(void (*see)(void *context, const void *start, size_t size), void *context);

/* Whether something of ours is mapped there. */
bool region_area_has(const void *address);
