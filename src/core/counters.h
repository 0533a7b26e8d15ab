/* SPDX-License-Identifier: MIT
 *
 * counters.h: process-wide event counters. Each is bumped where batches pass, never on the fast path; relaxed, because
 * no order between counters is promised. The list is the scalar event part of hak_stats_t, but for what each heap
 * counts (large.h).
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

#define HK_COUNTERS(X)                                                                                                 \
    X(slabs_new)                                                                                                       \
    X(slabs_reused)                                                                                                    \
    X(slabs_adopted)                                                                                                   \
    X(slabs_retired)                                                                                                   \
    X(superslabs_new)                                                                                                  \
    X(superslabs_reused)                                                                                               \
    X(superslabs_freed)                                                                                                \
    X(remote_batches)                                                                                                  \
    X(remote_drains)                                                                                                   \
    X(huge_allocs)                                                                                                     \
    X(huge_frees)                                                                                                      \
    X(purge_calls)                                                                                                     \
    X(purged_bytes)                                                                                                    \
    X(sparse_bytes)                                                                                                    \
    X(map_calls)                                                                                                       \
    X(magazine_grows)                                                                                                  \
    X(magazine_shrinks)                                                                                                \
    X(heaps_total)                                                                                                     \
    X(foreign_forwards)                                                                                                \
    X(limit_nears)                                                                                                     \
    X(limit_refusals)                                                                                                  \
    X(pressure_events)                                                                                                 \
    X(huge_page_bytes)                                                                                                 \
    X(prefault_bytes)

typedef struct hk_counters {
#define HK_COUNTER(name) _Atomic uint64_t name;
    HK_COUNTERS(HK_COUNTER)
#undef HK_COUNTER
} hk_counters_t;

extern hk_counters_t hk_counters HK_HIDDEN;

#define hk_count(name)        ((void)atomic_fetch_add_explicit(&hk_counters.name, 1, memory_order_relaxed))
#define hk_count_by(name, by) ((void)atomic_fetch_add_explicit(&hk_counters.name, (uint64_t)(by), memory_order_relaxed))
