/* SPDX-License-Identifier: MIT
 *
 * fake_heap.h: report/ and slow/reclaim.h without a heap, for tests of the rooms above it: fixed numbers that add up.
 */
#ifndef HK_TEST_FAKE_HEAP_H
#define HK_TEST_FAKE_HEAP_H

#include "api/heaps.h"
#include "report/check.h"
#include "report/describe.h"
#include "report/stats.h"
#include "slow/reclaim.h"

#include <string.h>

enum { FAKE_TRIMMED = 4096, FAKE_SLOT = 65536, FAKE_UNTOUCHED = 2 };

static size_t fake_trim_bytes = FAKE_TRIMMED;
static bool fake_has_classes = true;

/* Without residency more is free, as with the real one, and what only the kernel knows is 0. */
void hk_snapshot(hak_stats_t *stats, bool with_residency) {
    if (!fake_has_classes) {
        *stats = (hak_stats_t){.struct_size = stats->struct_size};
        return;
    }
    *stats = (hak_stats_t){
        .struct_size = stats->struct_size,
        .class_count = 3,
        .mapped = 64 << 20,
        .resident = 20 << 20,
        .live = 12 << 20,
        .cached = 1 << 20,
        .fragmented = 2 << 20,
        .retained = 4 << 20,
        .metadata = 1 << 20,
        .peak_mapped = 128 << 20,
        .slabs_new = 8,
        .slabs_reused = 90,
        .slabs_adopted = 2,
        .large_allocs = 5,
        .huge_allocs = 7,
        .huge_frees = 4,
        .purged_bytes = 15269888,
        .sparse_bytes = 1310720,
        .lock_takes = 100000,
        .lock_waits = 3,
        .limit_soft = 1835008,
        .limit_hard = (1 << 30) - 1,
    };
    stats->classes[0] = (hak_class_stats_t){16, 1000, 900, 50, 10, 8, 50, 20, 1};
    stats->classes[2] = (hak_class_stats_t){48, 2000, 1500, 0, 40, 8, 500, 30, 2};
    stats->classes[1].block_size = 32;
    if (with_residency)
        return;
    stats->cached *= FAKE_UNTOUCHED, stats->fragmented *= FAKE_UNTOUCHED, stats->retained *= FAKE_UNTOUCHED;
    stats->resident = stats->metadata = 0;
}

bool hk_thread_snapshot(uint64_t *allocated, uint64_t *freed) {
    *allocated = 700;
    *freed = 300;
    return fake_has_classes;
}

int heaps_stat_read(const char *path, uint64_t *value) {
    *value = strlen(path);
    return 0;
}

size_t hk_trim_all(void) { return fake_trim_bytes; }
void hk_limit_changed(void) {}
bool hk_owns(const void *ptr) { return ptr != NULL; }
size_t hk_check_all(void) { return 2; }

#endif
