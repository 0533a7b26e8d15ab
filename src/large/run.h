/* SPDX-License-Identifier: MIT
 *
 * run.h: the record of a run, which takes the place of the slab record of its first slot. large.h says what it means.
 */
#pragma once

#include "base/base.h"
#include "core/panic.h"
#include "map/map.h"
#include "slab/slab.h"

#include <stdatomic.h>

enum { LARGE_FREE = 0, LARGE_LIVE, LARGE_HELD };

/* The runs of an explicit heap, by their first slots. */
typedef struct run_links {
    slot_t next, previous;
} large_links_t;

typedef struct large_run {
    uint8_t slab_fields[offsetof(slab_t, padding)]; /* read where the record is still taken for a slab's: as it was */
    large_links_t links;                            /* heap/runs.h */
    uint32_t slot_count;
    _Atomic uint32_t state;     /* written when the run is allocated and freed, read by reports too */
    bool moved;                 /* its pages came from elsewhere (mremap): mapped anew when the slots are returned */
    bool fresh;                 /* its pages are those that the program touched since they came from the kernel */
    uint8_t alone;              /* 1 + the class whose slab the block stands in for; 0: none; written as `state` */
    _Atomic size_t slack;       /* large_set_slack; read by those who visit the heap too */
    size_t fenced_bytes;        /* of its end; this and the next: large/fence.h, written by who has the block */
    bool fenced_before;         /* the slot in front is fenced, and the run's */
    struct large_counts *taker; /* of the heap that took it; written before LIVE, read by who ends it */
    uint8_t slab_has_more[sizeof(slab_t) - offsetof(slab_t, padding) - 52];
} large_run_t;

/* The record of the run that begins at `block`. */
HK_INLINE large_run_t *large_run(const void *block) {
    hk_assert((uintptr_t)block % HK_SLOT_SIZE == 0 && map_slot(block) < map_count());
    return (large_run_t *)hk_window.areas[REGION_AREA_SLABS] + map_slot(block);
}
