/* SPDX-License-Identifier: MIT */
#include "heap/budget.h"

#include "limit/limit.h"
#include "superslab/superslab.h"
#include "sys/confined.h"
#include "sys/sys.h"

enum {
    THREADS_A_CPU = 8, /* more are oversubscribed, */
    THREADS_MIN = 8,   /* ... but not so few; */
    HEAVILY = 5,       /* ... and so many times as many heavily */
    CPUS_LOOK_MS = 1000,
    BYTES_MAX = 4 << 20,             /* what a small heap's magazines may be able to hold: */
    BYTES_MIN = 64 << 10,            /* ... so much in any case, when oversubscribed no more; */
    BYTES_TOGETHER = 16 << 20,       /* ... its part of what those of all such heaps may hold, */
    TOGETHER_SHARE = 8,              /* ... or of this part of the memory in use */
    PASSED_TOGETHER = 48 << 20,      /* what all may be able to hold, when their blocks change threads */
    SLOTS_MIN_BYTES = 2 << 20,       /* free slots for the next runs: as much as is in use, and so much more, */
    SLOTS_MAX_BYTES = 4 << 20,       /* ... but no more than this, */
    SLOTS_TOGETHER = 64 << 20,       /* ... and a thread's part of this, */
    SLOTS_OVERSUBSCRIBED = 32 << 20, /* ... or of this when oversubscribed */
    SHARE_MIN = 4,                   /* magazines of a large heap may be able to hold this part of what it owns, */
    SHARE_MAX = 8,                   /* ... or with more threads this, */
    SHARE_HEAVILY = 32,              /* ... as slabs of which a block is used count whole */
};

static _Atomic uint32_t thread_count;          /* that have a heap */
static _Atomic uint32_t at_ease = THREADS_MIN; /* written by who looks at the processors */
static _Atomic uint64_t cpus_look_at_ms;

uint32_t budget_threads_for(uint64_t cpus) {
    return (uint32_t)hk_max(THREADS_MIN, hk_min(cpus, HK_OWNER_LIMIT) * THREADS_A_CPU);
}

uint32_t heap_threads_at_ease(void) { return atomic_load_explicit(&at_ease, memory_order_relaxed); }

static uint32_t threads(void) { return atomic_load_explicit(&thread_count, memory_order_relaxed); }

size_t budget_threads(void) { return hk_max(threads(), 1); }

heap_press_t heap_press(void) {
    uint32_t have = threads(), ease = heap_threads_at_ease();
    return have > HEAVILY * ease ? HEAP_HEAVILY : have > ease || limit_is_near() ? HEAP_OVERSUBSCRIBED : HEAP_ROOM;
}

size_t budget_bytes(size_t owned, size_t in_use, size_t threads, heap_press_t press) {
    size_t together = hk_max(BYTES_TOGETHER, in_use / TOGETHER_SHARE);
    size_t part = hk_max(BYTES_MIN, hk_min(together / threads, BYTES_MAX));
    size_t share = press == HEAP_HEAVILY ? SHARE_HEAVILY : hk_max(SHARE_MIN, hk_min(threads, SHARE_MAX));
    return hk_max(press == HEAP_ROOM ? part : BYTES_MIN, owned / share);
}

bool budget_allows(const heap_t *h, size_t more_bytes) {
    size_t owned = (size_t)atomic_load_explicit(&h->slot_count, memory_order_relaxed) << HK_SLOT_SHIFT;
    size_t budget = budget_bytes(owned, superslab_taken_bytes(), budget_threads(), heap_press());
    return h->magazine_bytes + more_bytes <= budget;
}

size_t budget_slot_bytes(size_t live) {
    size_t part = SLOTS_MAX_BYTES;
    _Static_assert(SLOTS_OVERSUBSCRIBED / THREADS_MIN >= SLOTS_MAX_BYTES, "the part of so few threads is no bound");
    if (hk_unlikely(budget_threads() > THREADS_MIN)) {
        const size_t together = heap_press() == HEAP_ROOM ? SLOTS_TOGETHER : SLOTS_OVERSUBSCRIBED;
        part = hk_min(together / budget_threads(), SLOTS_MAX_BYTES);
    }
    return hk_min(live + SLOTS_MIN_BYTES, part);
}

size_t budget_passed_bytes(size_t threads) { return hk_max(BYTES_MIN, PASSED_TOGETHER / threads); }

size_t budget_passed_now(void) { return budget_passed_bytes(budget_threads()); }

bool budget_allows_passed(const heap_t *h, size_t more_bytes) {
    return h->magazine_bytes + more_bytes <= budget_passed_now();
}

/* Quota and affinity may change while the program runs: looked at when threads start, now and then, as long as that is
 * allowed. */
static void look_at_cpus(void) {
    if (sys_is_confined())
        return;
    uint64_t now = sys_now_ms(), next = atomic_load_explicit(&cpus_look_at_ms, memory_order_relaxed);
    if (now < next || !atomic_compare_exchange_strong_explicit(&cpus_look_at_ms, &next, now + CPUS_LOOK_MS,
                                                               memory_order_relaxed, memory_order_relaxed))
        return;
    uint64_t cpus = hk_min(sys_affinity_cpus(), sys_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup"));
    atomic_store_explicit(&at_ease, budget_threads_for(cpus), memory_order_relaxed);
}

void budget_thread_came(void) {
    if (atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed) >= THREADS_MIN)
        look_at_cpus();
}

void budget_thread_left(void) { atomic_fetch_sub_explicit(&thread_count, 1, memory_order_relaxed); }

void budget_set_threads(uint32_t count) { atomic_store_explicit(&thread_count, count, memory_order_relaxed); }
