/* SPDX-License-Identifier: MIT
 *
 * events.h: what the allocator does and somebody may want to see as it happens: probes for tracers (sys/probe.h),
 * provider `hakmem`. All lie on slow paths, and cost a load of a word that nobody writes while nobody traces.
 *
 *   map(bytes)             memory was taken from the system for blocks
 *   purge(bytes, kind)     memory was given back; kind: event_purge_t
 *   limit(kind, bytes)     event_limit_t: what is in use at a soft limit, what was asked for and refused at a hard one
 *   misuse(address)        as the report says, also where HAKMEM_ON_ERROR=ignore keeps it silent
 */
#pragma once

#include "base/base.h"
#include "sys/probe.h"

/* Numbers that tracers see: appended only. */
typedef enum event_purge { EVENT_PURGE_FREE = 0, EVENT_PURGE_HOLES = 1 /* inside slabs */ } event_purge_t;
typedef enum event_limit { EVENT_LIMIT_NEAR = 0, EVENT_LIMIT_REFUSED = 1 } event_limit_t;

extern void hk_trace_map(uint64_t bytes) HK_HIDDEN;
extern void hk_trace_purge(uint64_t bytes, uint64_t kind) HK_HIDDEN;
extern void hk_trace_limit(uint64_t kind, uint64_t bytes) HK_HIDDEN;
extern void hk_trace_misuse(uint64_t address) HK_HIDDEN;
extern const volatile uint16_t hk_trace_map_semaphore HK_HIDDEN, hk_trace_purge_semaphore HK_HIDDEN,
    hk_trace_limit_semaphore HK_HIDDEN, hk_trace_misuse_semaphore HK_HIDDEN;

HK_INLINE void event_map(uint64_t bytes) {
    if (SYS_PROBE_IS_WANTED(hk_trace_map))
        hk_trace_map(bytes);
}

HK_INLINE void event_purge(uint64_t bytes, event_purge_t kind) {
    if (SYS_PROBE_IS_WANTED(hk_trace_purge))
        hk_trace_purge(bytes, kind);
}

HK_INLINE void event_limit(event_limit_t kind, uint64_t bytes) {
    if (SYS_PROBE_IS_WANTED(hk_trace_limit))
        hk_trace_limit(kind, bytes);
}

HK_INLINE void event_misuse(const void *address) {
    if (SYS_PROBE_IS_WANTED(hk_trace_misuse))
        hk_trace_misuse((uint64_t)(uintptr_t)address);
}
