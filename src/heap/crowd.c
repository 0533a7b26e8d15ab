/* SPDX-License-Identifier: MIT */
#include "heap/crowd.h"

#include "heap/heap.h"
#include "limit/limit.h"
#include "sys/confined.h"
#include "sys/sys.h"

enum { CROWD_A_CPU = 8, CROWD_MIN = 8, THRONG_CROWDS = 5, CPUS_LOOK_MS = 1000 };

static _Atomic uint32_t thread_heap_count; /* heaps of threads */

static _Atomic uint32_t crowd = CROWD_MIN; /* written by who looks at the processors */
static _Atomic uint64_t cpus_look_at_ms;

uint32_t heap_crowd_of(uint64_t cpus) {
    return (uint32_t)hk_max(CROWD_MIN, hk_min(cpus, HK_OWNER_LIMIT) * CROWD_A_CPU);
}

uint32_t heap_thread_count(void) { return atomic_load_explicit(&thread_heap_count, memory_order_relaxed); }

uint32_t heap_crowd(void) { return atomic_load_explicit(&crowd, memory_order_relaxed); }

bool heap_is_crowded(void) {
    return atomic_load_explicit(&thread_heap_count, memory_order_relaxed) >
               atomic_load_explicit(&crowd, memory_order_relaxed) ||
           limit_is_near();
}

bool heap_is_throng(void) {
    return atomic_load_explicit(&thread_heap_count, memory_order_relaxed) >
           THRONG_CROWDS * atomic_load_explicit(&crowd, memory_order_relaxed);
}

/* Quota and affinity may change while the program runs: looked at when threads start, now and then, as long as that is allowed. */
static void look_at_cpus(void) {
    if (sys_is_confined())
        return;
    uint64_t now = sys_now_ms(), next = atomic_load_explicit(&cpus_look_at_ms, memory_order_relaxed);
    if (now < next || !atomic_compare_exchange_strong_explicit(&cpus_look_at_ms, &next, now + CPUS_LOOK_MS,
                                                               memory_order_relaxed, memory_order_relaxed))
        return;
    uint64_t cpus = hk_min(sys_affinity_cpus(), sys_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup"));
    atomic_store_explicit(&crowd, heap_crowd_of(cpus), memory_order_relaxed);
}

void crowd_join(void) {
    if (atomic_fetch_add_explicit(&thread_heap_count, 1, memory_order_relaxed) >= CROWD_MIN)
        look_at_cpus();
}

void crowd_leave(void) { atomic_fetch_sub_explicit(&thread_heap_count, 1, memory_order_relaxed); }

void crowd_set(uint32_t threads) { atomic_store_explicit(&thread_heap_count, threads, memory_order_relaxed); }
