/* SPDX-License-Identifier: MIT */
#include "limit/limit.h"

#include "core/counters.h"
#include "core/events.h"
#include "core/options.h"
#include "core/panic.h"
#include "sys/confined.h"
#include "sys/sys.h"

enum {
    NEAR_TENTHS = 9,
    FAR_TENTHS = 8,
    STEP_BYTES_MIN = 256 << 10,
    STEP_SHARE = 128,  /* of the limit: how far use may grow between two looks near it */
    WAY_SHARE = 8,     /* of the way to a limit: how much a thread takes from slabs between two looks */
    CLOSE_SHARE = 2,   /* of that from near to the hard limit: what is left when memory goes back at once */
    NEAR_SHARE = 512,  /* ... and of the limit near it */
    KERNEL_SHARE = 32, /* of a group's limit: what is charged to it besides anonymous memory */
};
#define FIRST_LOOK_BYTES (32 * HK_MIB)

_Atomic size_t hk_limit_check_at = FIRST_LOOK_BYTES;
_Atomic size_t hk_limit_step = INT64_MAX;
static _Atomic bool relief_is_wanted; /* set by any thread that looks, taken by one that can give memory back */

_Atomic bool hk_cgroup_is_read; /* once at least */
_Atomic uint64_t hk_cgroup_high = UINT64_MAX;
_Atomic uint64_t hk_cgroup_max = UINT64_MAX;

/* What is not known (any more) stays as it was. */
static void read_cgroup(void) {
    if (sys_is_confined())
        return;
    sys_memory_limits_t limits = sys_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup");
    if (!limits.known)
        return;
    atomic_store_explicit(&hk_cgroup_high, limits.high, memory_order_relaxed);
    uint64_t besides = limits.max == UINT64_MAX ? 0 : limits.max / KERNEL_SHARE;
    atomic_store_explicit(&hk_cgroup_max, limits.max - besides, memory_order_relaxed);
}

/* A child that is forked meanwhile reads it itself. Relaxed: of two threads both may read. */
static void read_cgroup_once(void) {
    if (limit_has_looked())
        return;
    read_cgroup();
    atomic_store_explicit(&hk_cgroup_is_read, true, memory_order_relaxed);
}

static size_t least(uint64_t option, const _Atomic uint64_t *cgroup) {
    uint64_t other = atomic_load_explicit(cgroup, memory_order_relaxed);
    return (size_t)(option != 0 && option < other ? option : other);
}

limits_t limit_in_force(void) {
    int64_t option = hk_option(HK_OPT_LIMIT);
    if (option == HK_LIMIT_OFF)
        return (limits_t){SIZE_MAX, SIZE_MAX};
    size_t hard = least(hk_limit_hard(option), &hk_cgroup_max);
    return (limits_t){hk_min(hard, least(hk_limit_soft(option), &hk_cgroup_high)), hard};
}

static bool is_near(void) { return atomic_load_explicit(&hk_limit_near, memory_order_relaxed); }

static void note_near(size_t use, size_t soft) {
    bool was_near = is_near();
    bool near = use >= soft / 10 * (was_near ? FAR_TENTHS : NEAR_TENTHS);
    if (near == was_near)
        return;
    atomic_store_explicit(&hk_limit_near, near, memory_order_relaxed);
    if (!near)
        return;
    hk_count(limit_nears);
    event_limit(EVENT_LIMIT_NEAR, use);
}

/* Without an answer of the kernel, as if all that is taken were resident. */
static size_t bytes_in_use(size_t taken) {
    size_t anonymous = sys_anonymous_bytes();
    return anonymous != 0 ? anonymous : taken;
}

static size_t near_from(size_t soft) { return soft / 10 * NEAR_TENTHS; }

static bool fits(size_t use, size_t more, size_t limit) { return more <= limit && use <= limit - more; }

/* What has to be known to the program's disadvantage is asked for once more: a group's limits may have been raised. */
static limits_t confirmed(limits_t limits, size_t use, size_t more) {
    if (fits(use, more, limits.hard) && (is_near() || fits(use, more, near_from(limits.soft))))
        return limits;
    read_cgroup();
    return limit_in_force();
}

static void set_check_at(size_t check_at) { atomic_store_explicit(&hk_limit_check_at, check_at, memory_order_relaxed); }

/* How far it is to a limit, and whether more has to go back on the way. Relaxed: a thread that looks at the same time
 * sees much the same. */
static void note_way(limits_t limits, size_t taken, size_t use) {
    static _Atomic size_t least_use; /* near a limit, since relief was last wanted */
    const size_t near_at = near_from(limits.soft), left = near_at - hk_min(near_at, use);
    const size_t least_step = hk_max(near_at / NEAR_SHARE, STEP_BYTES_MIN);
    const size_t step = hk_max(taken, use) < near_at ? INT64_MAX : hk_max(left / WAY_SHARE, least_step);
    atomic_store_explicit(&hk_limit_step, step, memory_order_relaxed);
    const size_t least = is_near() ? hk_min(atomic_load_explicit(&least_use, memory_order_relaxed), use) : use;
    hk_assert(step >= least_step);
    const size_t close = (limits.hard - near_at) / CLOSE_SHARE;
    const bool wants = use >= limits.hard - close && use - least >= hk_max(close / 2, least_step);
    if (wants)
        atomic_store_explicit(&relief_is_wanted, true, memory_order_relaxed);
    atomic_store_explicit(&least_use, wants ? use : least, memory_order_relaxed);
}

static bool look(limits_t limits, size_t taken, size_t use, size_t more) {
    bool allowed = fits(use, more, limits.hard);
    note_near(allowed ? use + more : use, limits.soft);
    /* What is resident may be more than what is taken (code, stacks), or less and then grow without that. */
    size_t next = is_near() ? limits.hard : near_from(limits.soft);
    taken += more;
    next -= hk_min(next, use + more > taken ? use + more - taken : 0);
    size_t step = hk_max(next / STEP_SHARE, STEP_BYTES_MIN);
    hk_assert(limits.soft <= limits.hard);
    set_check_at(!allowed ? 0 : taken < next ? next : taken + step);
    note_way(limits, taken, use);
    return allowed;
}

static bool look_once(limits_t *limits, size_t more) {
    size_t taken = superslab_taken_bytes() + huge_bytes(), use = 0;
    *limits = limit_in_force();
    if (limits->soft != SIZE_MAX) {
        use = bytes_in_use(taken);
        *limits = confirmed(*limits, use, more);
    }
    return look(*limits, taken, use, more);
}

/* Limits may be set while another thread looks, which then writes a check_at of the old ones over that of the new: so
 * whoever has written looks whether they still are in force. Sequentially consistent fences: of two threads that write
 * check_at, the later one finds what the earlier one has set before. */
bool limit_look(size_t more) {
    read_cgroup_once();
    limits_t limits, now;
    bool allowed;
    do {
        atomic_thread_fence(memory_order_seq_cst);
        allowed = look_once(&limits, more);
        atomic_thread_fence(memory_order_seq_cst);
        now = limit_in_force();
    } while (now.soft != limits.soft || now.hard != limits.hard);
    if (allowed)
        return true;
    if (more > 0) {
        hk_count(limit_refusals);
        event_limit(EVENT_LIMIT_REFUSED, more);
    }
    superslab_set_floor(0); /* what HAKMEM_WARMUP keeps is needed now */
    return false;
}

/* Before the first look none is known, and the next one is due soon. */
bool limit_is_far(size_t more) {
    if (!limit_has_looked() && !limit_needs_no_look(more))
        (void)limit_look(0);
    return limit_needs_no_look(more);
}

bool limit_wants_relief(void) {
    (void)limit_look(0);
    return atomic_exchange_explicit(&relief_is_wanted, false, memory_order_relaxed);
}

size_t limit_room(void) {
    read_cgroup_once();
    size_t hard = limit_in_force().hard;
    if (hard == SIZE_MAX)
        return SIZE_MAX;
    return hard - hk_min(hard, bytes_in_use(superslab_taken_bytes() + huge_bytes()));
}

void limit_follow(void) {
    static _Atomic uint64_t followed_ms; /* relaxed: of two threads both may read */
    if (!limit_has_looked() || limit_in_force().soft == SIZE_MAX)
        return;
    if (is_near() && !sys_is_recent(&followed_ms)) {
        atomic_store_explicit(&followed_ms, sys_now_ms(), memory_order_relaxed);
        read_cgroup();
    }
    (void)limit_look(0);
}
