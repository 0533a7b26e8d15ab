/* SPDX-License-Identifier: MIT
 *
 * maintain.c: everything periodic: the countdown's tick, the helper thread, trimming on request.
 *
 * The helper exists only while there is memory to give back: whoever frees memory starts it when enough is dirty, and it
 * leaves after some rounds without work. It takes heaps' locks only when nobody holds them, and purges without a lock; a heap that
 * it retires is nobody's, and round_lock, which it holds then, is only ever tried.
 */
#include "heap/heap.h"

#include "core/options.h"
#include "heap/fork.h"
#include "heap/hardened.h"
#include "heap/life.h"
#include "heap/limit.h"
#include "heap/low_water.h"
#include "heap/pressure.h"
#include "heap/sparse.h"
#include "heap/unnoticed.h"
#include "map/meta.h"
#include "superslab/superslab.h"
#include "sys/confined.h"
#include "sys/libc_doors.h"
#include "sys/sys.h"

enum {
    HELPER_STACK_BYTES = 64 * 1024,
    HELPER_ROUND_MS_MAX = 125,
    HELPER_ROUND_MS_MIN = 10,
    HELPER_ROUNDS_IDLE_MAX = 8,
    HELPER_RETRY_MS = 1000, /* after the system refused a helper */
    HOLES_SHARE = 4,        /* when this part of the heap waits in slabs in use, it is given back */
    HOLES_HASTE = 4,        /* ... after this part of the delay */
    REST_SHARE = 2,         /* heaps without a thread rest for this part of the delay */
};

/* Guarded by helper_lock, but for the words that are atomic. */
static hk_lock_t helper_lock = HK_LOCK_INIT(HK_RANK_HELPER);
static void *helper_stack;
static _Atomic uint32_t helper_running; /* 1 from start until the helper has decided to leave */
static sys_helper_t helper;
static _Atomic uint32_t helper_stop; /* set to make it leave; a futex it sleeps on */
static bool comes_back;              /* after the fork; written and read by who forks */
static uint64_t signals_before;      /* what the holder of helper_lock held back before, */
static bool signals_held;            /* and whether it holds back signals now */
static _Atomic uint64_t next_inline_purge_ms;
static _Atomic uint64_t helper_refused_ms; /* when the system last refused a helper; 0: never */

static _Atomic uint32_t at_work; /* threads of ours that may hold a lock */
static const void
    *_Atomic forking_thread; /* that holds helper_lock for a fork; compared by that thread with itself alone */

/* Only tried: held by who is in a round. */
static hk_lock_t round_lock = HK_LOCK_INIT(HK_RANK_HELPER);
static low_water_t dirty_low; /* guarded by round_lock */
static bool holes_are_many;   /* as the last round found: guarded by round_lock */

/* Whoever holds helper_lock holds back what signals others send: a handler that forks must not come upon its own thread here. */
static bool helper_enter(bool wait) {
    uint64_t before = 0;
    bool held = sys_signals_hold(SYS_SIGNALS_SENT, &before), entered = hk_try_lock(&helper_lock);
    if (!entered && wait) {
        hk_lock_wait(&helper_lock);
        entered = true;
    }
    if (entered) {
        signals_before = before;
        signals_held = held;
    } else if (held) {
        sys_signals_release(before);
    }
    return entered;
}

static void helper_leave(void) {
    uint64_t before = signals_before;
    bool held = signals_held;
    hk_unlock(&helper_lock);
    if (held)
        sys_signals_release(before);
}

static uint64_t purge_age_ms(void) {
    if (hk_unlikely(limit_is_near()))
        return 0;
    int64_t delay = hk_option(HK_OPT_PURGE_DELAY);
    return delay < 0 ? UINT64_MAX : (uint64_t)delay;
}

/* --- One round over everything ------------------------------------------------------------------------------------- */

/* The helper has been told of what was freed. */
static void forget_freed_locked(heap_t *h) {
    if (heap_freed_bytes(h) == 0)
        return;
    atomic_store_explicit(&h->freed_bytes, 0, memory_order_relaxed);
    for (unsigned cls = 0; cls < HK_BIN_COUNT; cls++)
        h->class_stats[cls].rest_blocks = 0;
}

/* Tidies a heap whose thread did not come behind its magazines since the last round. */
static void tidy_heap(heap_t *h, bool force) {
    if (!hk_try_lock(&h->lock))
        return;
    forget_freed_locked(h);
    if (force || h->lock_takes == h->seen_takes) {
        heap_drain_locked(h);
        if (atomic_load_explicit(&h->slot_count, memory_order_relaxed) > 0)
            heap_retire_spares_locked(h);
    }
    h->seen_takes = h->lock_takes;
    hk_unlock(&h->lock);
}

/* Returns the bytes still held in run caches. The pool comes last: heaps without a thread pass on to it what still comes to them. */
static size_t tidy_all(uint64_t now_ms, uint64_t age_ms, bool force) {
    size_t cached = 0;
    for (uint32_t id = heap_limit(); id-- > HK_OWNER_POOL;) {
        heap_t *h = heap_by_id(id);
        tidy_heap(h, force);
        if (hk_read(h->large.bytes) > 0)
            (void)large_cache_trim(&h->large, now_ms, age_ms);
        cached += hk_read(h->large.bytes);
    }
    return cached;
}

/* True when there is something left to do. */
static bool helper_round(void) {
    uint64_t now = sys_now_ms();
    limit_follow();
    uint64_t age = purge_age_ms();
    if (age == UINT64_MAX || !hk_try_lock(&round_lock))
        return false;
    uint64_t until = now - hk_min(now, age / REST_SHARE);
    unnoticed_end_gone();
    heap_retire_resting(until);
    heap_strip_unused(until);
    size_t cached = tidy_all(now, age, false);
    sparse_result_t sparse = sparse_round_within(now, age, holes_are_many ? HOLES_HASTE : 1);
    if (sparse.looked_at_bytes > 0)
        holes_are_many = sparse.waiting_bytes * HOLES_SHARE >= sparse.looked_at_bytes;
    size_t least = superslab_dirty_low(), level = superslab_dirty_bytes() >> HK_SLOT_SHIFT;
    size_t slots = low_water_note(&dirty_low, least, level, now, age);
    (void)superslab_purge(age == 0 ? SIZE_MAX : slots);
    hk_unlock(&round_lock);
    return superslab_waiting_bytes() + cached + sparse.waiting_bytes + heap_ended_bytes() >= HEAP_WORTH_BYTES;
}

/* --- The helper thread ------------------------------------------------------------------------------------------------ */

static uint32_t round_ms(void) {
    uint64_t quarter = purge_age_ms() / 4;
    return (uint32_t)hk_max(HELPER_ROUND_MS_MIN, hk_min(quarter, HELPER_ROUND_MS_MAX));
}

/* Release: pairs with the acquire below; who finds nobody at work finds the locks as they left them. */
void heap_maintain_work(int by) { atomic_fetch_add_explicit(&at_work, (uint32_t)by, memory_order_release); }

bool heap_maintain_is_at_work(void) { return atomic_load_explicit(&at_work, memory_order_acquire) != 0; }

bool heap_maintain_is_forking(void) {
    return atomic_load_explicit(&forking_thread, memory_order_relaxed) == hk_thread_self();
}

unsigned heap_maintain_threads(void) { return sys_helper_is_alive(&helper) + pressure_is_alive(); }

/* Rounds until there is nothing to do; false when the helper must leave whatever there is. */
static bool helper_serve(void) {
    for (unsigned idle = 0; idle < HELPER_ROUNDS_IDLE_MAX;) {
        sys_futex_wait(&helper_stop, 0, round_ms());
        if (atomic_load_explicit(&helper_stop, memory_order_relaxed) != 0 || sys_helper_outlived_credentials())
            return false;
        heap_maintain_work(1);
        idle = helper_round() ? 0 : idle + 1;
        heap_maintain_work(-1);
    }
    return true;
}

/* What a free would call the helper for. */
static bool memory_waits(void) {
    if (purge_age_ms() == UINT64_MAX || sys_purge_refused())
        return false;
    if (superslab_waiting_bytes() + heap_ended_bytes() >= HEAP_WORTH_BYTES)
        return true;
    for (uint32_t id = HK_OWNER_POOL; id < heap_limit(); id++)
        if (heap_freed_bytes(heap_by_id(id)) >= HEAP_WORTH_BYTES)
            return true;
    return false;
}

/* Runs without libc: see sys/helper_thread.c. Whoever frees memory before helper_running is 0 relies on this thread, and whoever
 * does later starts a new one once it is gone. So it looks once more: sequentially consistent, as the store comes before the
 * look. (Memory is counted under locks, whose operations order the other side.) */
static void helper_run(void *unused) {
    (void)unused;
    sys_helper_own_files();
    uint32_t none;
    do {
        bool asked_to = !helper_serve();
        atomic_store_explicit(&helper_running, 0, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst);
        if (asked_to || !memory_waits())
            return;
        none = 0;
    } while (
        atomic_compare_exchange_strong_explicit(&helper_running, &none, 1, memory_order_relaxed, memory_order_relaxed));
}

static void launch_locked(void) {
    sys_process_mark_wipe();
    if (helper_stack == NULL)
        helper_stack = sys_map(HELPER_STACK_BYTES);
    atomic_store_explicit(&helper_stop, 0, memory_order_relaxed);
    atomic_store_explicit(&helper_running, 1, memory_order_relaxed);
    if (helper_stack != NULL && sys_helper_start(helper_run, NULL, helper_stack, HELPER_STACK_BYTES, &helper) == 0)
        return;
    atomic_store_explicit(&helper_refused_ms, sys_now_ms(), memory_order_relaxed);
    atomic_store_explicit(&helper_running, 0, memory_order_relaxed);
}

/* False when the system refuses a helper: out of threads, or a tool that knows no such thread. */
static HK_COLD bool helper_start(void) {
    uint64_t refused = atomic_load_explicit(&helper_refused_ms, memory_order_relaxed);
    if (hk_unlikely(refused != 0) && sys_now_ms() - refused < HELPER_RETRY_MS)
        return false;
    /* A child of vfork. A thread that it started would be one of its own, gone with its exec or its end, whatever lock it holds. Nor
     * does it go through the memory itself, where it may be killed. What it frees the parent gives back. */
    if (!fork_is_home())
        return true;
    heap_ensure_hooks();
    if (!helper_enter(false))
        return true;
    /* The last helper's stack may be in use for some microseconds yet. */
    if (atomic_load_explicit(&helper_running, memory_order_relaxed) == 0)
        sys_helper_wait_a_moment(&helper);
    if (!sys_helper_is_alive(&helper))
        launch_locked();
    helper_leave();
    return true;
}

/* The watcher of memory pressure is started under the same lock, so that whoever wants to be alone stops both. */
static void start_watcher(void) {
    if (hk_likely(!pressure_is_wanted()) || hk_locks_are_open() || sys_is_confined() || !fork_is_home())
        return;
    heap_ensure_hooks();
    if (!helper_enter(false))
        return;
    pressure_start();
    helper_leave();
}

/* Without a helper, memory is given back by whoever frees some, not more often than a helper would. */
static void purge_inline(void) {
    uint64_t now = sys_now_ms();
    uint64_t next = atomic_load_explicit(&next_inline_purge_ms, memory_order_relaxed);
    if (now < next || !atomic_compare_exchange_strong_explicit(&next_inline_purge_ms, &next, now + round_ms(),
                                                               memory_order_relaxed, memory_order_relaxed))
        return;
    (void)helper_round();
}

/* Address space that the program itself may need for its next mapping, a thread's stack above all: no helper would be in time. */
static void give_back_now(void) {
    if (superslab_waiting_bytes() < HEAP_WORTH_BYTES || sys_purge_refused() || hk_locks_are_open())
        return;
    (void)superslab_purge(SIZE_MAX);
    superslab_close_empty();
}

void heap_memory_freed(const heap_t *h) {
    if (superslab_waiting_bytes() + heap_ended_bytes() >= HEAP_WORTH_BYTES ||
        (h != NULL && heap_freed_bytes(h) >= HEAP_WORTH_BYTES) || limit_is_near())
        heap_memory_freed_much();
}

void heap_memory_freed_much(void) {
    if (hk_unlikely(region_is_at_limit()))
        give_back_now();
    bool has_helper = atomic_load_explicit(&helper_running, memory_order_relaxed) != 0 && sys_helper_is_alive(&helper);
    if (has_helper || purge_age_ms() == UINT64_MAX || sys_purge_refused() || hk_locks_are_open() || !fork_attend())
        return;
    if (purge_age_ms() == 0 && !limit_is_near())
        (void)superslab_purge(SIZE_MAX);
    /* What is left lies inside slabs. */
    if (HK_TSAN || hk_option(HK_OPT_BACKGROUND) == 0 || sys_is_confined() || !helper_start())
        purge_inline();
}

/* --- When the process must be alone ---------------------------------------------------------------------------------- */

/* The helper leaves. None starts while the caller holds the lock. */
static void helper_dismiss_locked(void) {
    if (!sys_helper_is_here(&helper))
        return;
    atomic_store_explicit(&helper_stop, 1, memory_order_relaxed);
    sys_futex_wake(&helper_stop, 1);
    (void)sys_helper_wait(&helper);
}

void hk_threads_pause(void) {
    if (heap_maintain_is_forking())
        return; /* it holds the lock, and there are none */
    (void)helper_enter(true);
    helper_dismiss_locked();
    pressure_dismiss();
}

/* Nothing starts at once: a program that asked for one thing of this kind may be about to ask for the next. */
void hk_threads_resume(void) {
    if (!heap_maintain_is_forking())
        helper_leave();
}

/* What would need other system calls later is done now: the start, if nobody has allocated yet, and the hooks that the first
 * thread would register. */
void hk_confine(void) {
    if (sys_is_confined())
        return;
    if (heap_system_ready())
        heap_ensure_hooks();
    hk_threads_pause();
    sys_confine();
    hk_threads_resume();
    /* The thread that forks is in a passage until after the fork: a fork handler of the program would wait for its own. */
    if (!heap_maintain_is_forking())
        sys_wait_for_passages();
}

bool heap_maintain_before_fork(void) {
    (void)helper_enter(true);
    atomic_store_explicit(&forking_thread, hk_thread_self(), memory_order_relaxed);
    comes_back = atomic_load_explicit(&helper_running, memory_order_relaxed) != 0;
    helper_dismiss_locked();
    return !sys_helper_is_here(&helper) && !pressure_is_here();
}

/* What was freed goes now, as no helper comes back for it: cheaper than its pages would be in the tables of two processes, and at
 * the first write after the fork. */
void heap_maintain_alone_before_fork(void) {
    if (!comes_back)
        return;
    comes_back = false;
    (void)heap_relieve();
}

/* Threads of ours do not exist in a child. */
static void forget_threads(void) {
    atomic_store_explicit(&helper.alive, 0, memory_order_relaxed);
    helper.id = 0;
    atomic_store_explicit(&helper_running, 0, memory_order_relaxed);
    atomic_store_explicit(&at_work, 0, memory_order_relaxed);
    round_lock = (hk_lock_t)HK_LOCK_INIT(HK_RANK_HELPER);
    pressure_after_fork_in_child();
}

void heap_maintain_after_unseen_fork(void) {
    atomic_store_explicit(&helper_stop, 0, memory_order_relaxed);
    atomic_store_explicit(&forking_thread, NULL, memory_order_relaxed);
    helper_lock = (hk_lock_t)HK_LOCK_INIT(HK_RANK_HELPER);
    forget_threads();
    sys_passages_after_fork(0);
}

void heap_maintain_after_fork(bool in_child, bool alone) {
    if (in_child) {
        forget_threads();
        sys_passages_after_fork(signals_held);
    }
    atomic_store_explicit(&helper_stop, 0, memory_order_relaxed); /* for one that was too busy to leave */
    bool wanted = comes_back;
    atomic_store_explicit(&forking_thread, NULL, memory_order_relaxed);
    helper_leave();
    /* A process that is alone stays so: CPython looks at its number of threads after the fork, and a child may have to be
     * single-threaded for a while (unshare(2)). */
    if (in_child || alone)
        return;
    if (wanted)
        heap_memory_freed_much();
    else
        heap_memory_freed(NULL);
}

void heap_maintain_init(void) {
    superslab_set_floor((size_t)hk_option(HK_OPT_WARMUP));
    /* A limit of the program's own may be lower than where limits are looked for. */
    if (hk_option(HK_OPT_LIMIT) != 0)
        atomic_store_explicit(&hk_limit_check_at, 0, memory_order_relaxed);
}

/* --- Warm-up and exit ----------------------------------------------------------------------------------------------- */

/* One block of each tiny class in and out fills half of its first magazine. */
static void fill_magazines(heap_t *h) {
    for (unsigned cls = 0; cls < HK_TINY_CLASSES; cls++) {
        void *block = magazine_alloc(h, cls);
        if (block != NULL)
            magazine_free(h, cls, block);
    }
}

/* Limits, and the machine's memory, leave room for other things than this. */
static size_t within_limits(size_t bytes) {
    const char *what = "the memory limit of the process";
    size_t room = limit_room(), addresses = sys_address_space_room(), available = sys_available_bytes();
    if (addresses < room)
        what = "RLIMIT_AS", room = addresses;
    if (available < room)
        what = "the machine's memory", room = available;
    size_t most = room == SIZE_MAX ? SIZE_MAX : room / 4 * 3;
    if (bytes <= most)
        return bytes;
    hk_message("HAKMEM_WARMUP: %zu MiB of %zu, as %s leaves no room for more", most / HK_MIB, bytes / HK_MIB, what);
    return most;
}

void heap_warm_up(size_t bytes) {
    heap_t *h = heap_current();
    if (h == NULL)
        return;
    if (!hardened_is_on())
        fill_magazines(h);
    bytes = within_limits(bytes);
    size_t count = (bytes + HK_SUPERSLAB_SIZE - 1) >> HK_SUPERSLAB_SHIFT;
    slot_t *taken = meta_alloc(hk_max(count, 1) * sizeof *taken);
    size_t got = 0;
    while (taken != NULL && got < count) {
        slot_t first = slots_alloc(HK_SLOTS_PER_SUPERSLAB, HK_SLOTS_PER_SUPERSLAB, SLOTS_DENSE).first;
        if (first == 0)
            break;
        taken[got++] = first;
        if (sys_populate(map_slot_address(first), HK_SUPERSLAB_SIZE) != 0)
            break;
    }
    for (size_t i = 0; i < got; i++)
        slots_free(taken[i], HK_SLOTS_PER_SUPERSLAB, true);
    meta_free(taken, hk_max(count, 1) * sizeof *taken);
}

void heap_at_exit(void) {
    heap_front_t *front = hk_front;
    if (hardened_is_on() && front != &hk_no_heap)
        hardened_drain(heap_of_front(front));
}

/* --- Tick and trim ------------------------------------------------------------------------------------------------------ */

void heap_tick(heap_t *h) {
    h->front.countdown = HEAP_TICK_BYTES;
    if (!fork_attend())
        return;
    magazine_tick(h);
    if (h->remote_pending_bytes > 0)
        heap_remote_post_all(h);
    heap_lock(h);
    heap_drain_locked(h);
    heap_unlock(h);
    heap_memory_freed(h);
    start_watcher();
}

size_t heap_relieve(void) {
    unnoticed_end_gone();
    heap_retire_resting(UINT64_MAX);
    heap_strip_unused(UINT64_MAX);
    (void)tidy_all(sys_now_ms(), 0, true);
    size_t sparse = sparse_trim(), slots = superslab_purge(SIZE_MAX);
    superslab_close_empty();
    region_relieve();
    return sparse + slots;
}

size_t heap_trim_all(void) {
    if (!heap_system_ready())
        return 0;
    heap_t *h = heap_current();
    if (h != NULL) {
        if (hardened_is_on())
            hardened_drain(h);
        magazine_drop_all(h);
        heap_remote_post_all(h);
    }
    return heap_relieve();
}
