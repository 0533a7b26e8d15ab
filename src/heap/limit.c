/* SPDX-License-Identifier: MIT */
#include "heap/limit.h"

#include "core/counters.h"
#include "core/options.h"
#include "heap/heap.h"
#include "heap/heap_api.h"
#include "heap/pressure.h"
#include "sys/sys.h"

enum {
    NEAR_TENTHS = 9,
    FAR_TENTHS = 8,
    STEP_BYTES_MIN = 256 << 10,
    STEP_SHARE = 128, /* of the limit: how far use may grow between two looks near it */
};
#define FIRST_LOOK_BYTES (32 * HK_MIB)

_Atomic size_t hk_limit_check_at = FIRST_LOOK_BYTES;
_Atomic bool hk_limit_near;

/* Written once, by the first look. */
static _Atomic bool cgroup_is_read;
static _Atomic uint64_t cgroup_high = UINT64_MAX;
static _Atomic uint64_t cgroup_max = UINT64_MAX;

static void read_cgroup(void) {
    if (atomic_exchange_explicit(&cgroup_is_read, true, memory_order_relaxed))
        return;
    sys_memory_limits_t limits = sys_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup");
    atomic_store_explicit(&cgroup_high, limits.high, memory_order_relaxed);
    atomic_store_explicit(&cgroup_max, limits.max, memory_order_relaxed);
    pressure_want();
}

static size_t least(uint64_t option, const _Atomic uint64_t *cgroup) {
    uint64_t other = atomic_load_explicit(cgroup, memory_order_relaxed);
    return (size_t)(option != 0 && option < other ? option : other);
}

size_t limit_hard(void) { return least(hk_limit_hard(hk_option(HK_OPT_LIMIT)), &cgroup_max); }

size_t limit_soft(void) { return hk_min(limit_hard(), least(hk_limit_soft(hk_option(HK_OPT_LIMIT)), &cgroup_high)); }

static void note_near(size_t use, size_t soft) {
    bool was_near = limit_is_near();
    bool near = use >= soft / 10 * (was_near ? FAR_TENTHS : NEAR_TENTHS);
    if (near == was_near)
        return;
    atomic_store_explicit(&hk_limit_near, near, memory_order_relaxed);
    if (near)
        hk_count(limit_nears);
}

bool limit_look(size_t more) {
    read_cgroup();
    size_t soft = limit_soft(), hard = limit_hard();
    if (soft == SIZE_MAX) {
        atomic_store_explicit(&hk_limit_check_at, SIZE_MAX, memory_order_relaxed);
        atomic_store_explicit(&hk_limit_near, false, memory_order_relaxed);
        return true;
    }
    /* Without an answer, as if all that is taken were resident. */
    size_t taken = superslab_taken_bytes() + huge_bytes(), resident = sys_resident_bytes();
    size_t use = resident != 0 ? resident : taken;
    bool allowed = more <= hard && use <= hard - more;
    if (!allowed)
        hk_count(limit_refusals);
    note_near(allowed ? use + more : use, soft);
    /* What is resident may be more than what is taken (code, stacks), or less and then grow without that. */
    size_t next = limit_is_near() ? hard : soft / 10 * NEAR_TENTHS;
    taken += more;
    next -= hk_min(next, use + more > taken ? use + more - taken : 0);
    size_t step = hk_max(next / STEP_SHARE, STEP_BYTES_MIN);
    size_t check_at = !allowed ? 0 : taken < next ? next : taken + step;
    atomic_store_explicit(&hk_limit_check_at, check_at, memory_order_relaxed);
    return allowed;
}

void limit_follow(void) {
    bool looked = atomic_load_explicit(&cgroup_is_read, memory_order_relaxed);
    if (looked && atomic_load_explicit(&hk_limit_check_at, memory_order_relaxed) != SIZE_MAX)
        (void)limit_look(0);
}

void hk_limit_changed(void) {
    if (map_count() == 0)
        return; /* not started, and this must not start it: options are closed by that */
    (void)limit_look(0);
    if (limit_is_near())
        heap_memory_freed_much();
}
