/* SPDX-License-Identifier: MIT
 *
 * life.c: start of the allocator, birth and death of heaps.
 */
#include "heap/life.h"

#include "core/counters.h"
#include "core/options.h"
#include "heap/fork.h"
#include "heap/hardened.h"
#include "heap/heap.h"
#include "heap/limit.h"
#include "heap/record.h"
#include "heap/unnoticed.h"
#include "large/huge.h"
#include "map/meta.h"
#include "superslab/superslab.h"
#include "sys/confined.h"
#include "sys/libc_doors.h"
#include "sys/sys.h"

enum { CROWD_A_CPU = 8, CROWD_MIN = 8, THRONG_CROWDS = 5, CPUS_LOOK_MS = 1000 };
enum { REST_SLOTS_MAX = 128, REST_HEAPS_MAX = 32 }; /* a heap of more does not rest; nor do more heaps */

enum { INIT_NONE = 0, INIT_DONE = 1 };
enum { HOOKS_NONE = 0, HOOKS_DONE = 2, HOOKS_WAIT_MS = 1 };

heap_front_t hk_no_heap = {.tag = HK_MAP_NO_TAG};

/* The only thread-local state: the fast path's heap, and whether this thread has been told to die. Both hk_front and
 * `thread_over` are touched by their thread alone. */
_Thread_local heap_front_t *hk_front __attribute__((tls_model("initial-exec"), visibility("hidden"))) = &hk_no_heap;
static _Thread_local bool thread_over __attribute__((tls_model("initial-exec")));
static _Thread_local bool in_hooks __attribute__((tls_model("initial-exec"))); /* libc may allocate for the hooks */

static hk_lock_t init_lock = HK_LOCK_INIT(HK_RANK_INIT);
static _Atomic uint32_t init_state;  /* written under init_lock */
static bool options_are_read;        /* guarded by init_lock */
static _Atomic uint32_t hooks_state; /* HOOKS_*, or the process whose thread is at it: process id << 1 | 1 */

/* Guarded by hk_heap_list_lock; hk_heap_id_limit is also read without it. */
hk_lock_t hk_heap_list_lock = HK_LOCK_INIT(HK_RANK_HEAP_LIST);
static uint32_t resting_ids; /* the latest first, */
static uint32_t unused_ids;  /* here too */
static uint32_t bare_ids;    /* unused, and their records given back */
static uint32_t resting_count;
static _Atomic size_t ended_bytes; /* also read without it */
_Atomic uint32_t hk_heap_id_limit = HK_OWNER_FIRST;
static _Atomic uint32_t orphan_count;
static _Atomic uint32_t thread_heap_count; /* heaps of threads, with or without that lock */

static _Atomic uint32_t crowd = CROWD_MIN; /* written by who looks at the processors */
static _Atomic uint64_t cpus_look_at_ms;

uint32_t heap_crowd_of(uint64_t cpus) {
    return (uint32_t)hk_max(CROWD_MIN, hk_min(cpus, HK_OWNER_LIMIT) * CROWD_A_CPU);
}

uint32_t heap_thread_count(void) { return atomic_load_explicit(&thread_heap_count, memory_order_relaxed); }

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

uint32_t heap_limit(void) { return atomic_load_explicit(&hk_heap_id_limit, memory_order_acquire); }

static void heap_prepare(heap_t *h, uint32_t id, hk_rank_t rank) {
    h->front.tag = hardened_is_on() ? HK_MAP_NO_TAG : map_tag(id); /* hardened: no free takes the fast path */
    h->front.id = id;
    h->front.countdown = HEAP_TICK_BYTES;
    h->lock = (hk_lock_t)HK_LOCK_INIT(rank);
    large_cache_init(&h->large);
}

static bool init_locked(void) {
    fork_init();
    if (!options_are_read)
        hk_options_init(sys_environment());
    options_are_read = true;
    if (region_init() != 0 || region_area_cover(REGION_AREA_HEAPS, HEAP_STRIDE * HK_OWNER_FIRST) != 0)
        return false;
    map_init();
    classes_init();
    if (hk_option(HK_OPT_SAFE) >= 2)
        hardened_init((int)hk_option(HK_OPT_SAFE));
    heap_prepare(heap_pool(), HK_OWNER_POOL, HK_RANK_POOL_HEAP);
    heap_maintain_init();
    return true;
}

/* True when the allocator works. The first caller starts it; when there is no memory for that, a later one. */
static bool ensure_init(void) {
    /* Acquire: pairs with the release below; whoever sees INIT_DONE sees everything that init_locked wrote. */
    if (hk_likely(atomic_load_explicit(&init_state, memory_order_acquire) == INIT_DONE))
        return true;
    hk_lock(&init_lock);
    bool done = atomic_load_explicit(&init_state, memory_order_relaxed) == INIT_DONE || init_locked();
    if (done)
        atomic_store_explicit(&init_state, INIT_DONE, memory_order_release);
    hk_unlock(&init_lock);
    return done;
}

bool heap_system_has_started(void) { return atomic_load_explicit(&init_state, memory_order_acquire) == INIT_DONE; }

bool heap_system_is_starting(void) { return atomic_load_explicit(&init_lock.word, memory_order_relaxed) != 0; }

bool heap_system_ready(void) { return fork_attend() && ensure_init(); }

/* --- Birth and death ------------------------------------------------------------------------------------------------ */

/* Of a heap that has left its list. */
static void rise_locked(heap_t *h, uint32_t life) {
    if (atomic_load_explicit(&h->life, memory_order_relaxed) == HEAP_RESTING)
        resting_count--;
    atomic_fetch_sub_explicit(&ended_bytes, h->ended_with_bytes, memory_order_relaxed);
    atomic_store_explicit(&h->life, life, memory_order_relaxed);
}

static void push_locked(uint32_t *ids, heap_t *h, uint32_t life, size_t bytes) {
    h->ended_with_bytes = bytes;
    atomic_fetch_add_explicit(&ended_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&h->life, life, memory_order_relaxed);
    h->next_unused = *ids;
    *ids = h->front.id;
}

/* For a thread that starts. */
static heap_t *pop_locked(uint32_t *ids) {
    heap_t *h = heap_by_id(*ids);
    *ids = h->next_unused;
    rise_locked(h, HEAP_LIVE);
    return h;
}

static heap_t *take_new_locked(void) {
    uint32_t id = heap_limit();
    if (id >= HK_OWNER_LIMIT || region_area_cover(REGION_AREA_HEAPS, (size_t)HEAP_STRIDE * (id + 1)) != 0)
        return NULL;
    heap_t *h = heap_by_id(id);
    heap_prepare(h, id, HK_RANK_HEAP);
    atomic_store_explicit(&h->life, HEAP_LIVE, memory_order_relaxed);
    /* Release: pairs with the acquire in heap_limit; who sees the limit sees a prepared heap. */
    atomic_store_explicit(&hk_heap_id_limit, id + 1, memory_order_release);
    return h;
}

/* The one that was in use latest; NULL when memory is out. */
static heap_t *take_locked(void) {
    uint32_t *lists[] = {&resting_ids, &unused_ids, &bare_ids};
    for (unsigned i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (*lists[i] != 0)
            return pop_locked(lists[i]);
    return take_new_locked();
}

static void make_unused(heap_t *h, uint32_t *ids, size_t bytes) {
    h->ended_since_ms = sys_now_ms();
    hk_lock(&hk_heap_list_lock);
    push_locked(ids, h, HEAP_UNUSED, bytes);
    hk_unlock(&hk_heap_list_lock);
}

/* Empties a heap whose thread is over and makes its id usable again. Any thread that has claimed the heap, and the helper. */
static void heap_retire(heap_t *h) {
    if (hardened_is_on())
        hardened_drain(h);
    magazine_retire_all(h);
    heap_remote_post_all(h);
    (void)large_cache_trim(&h->large, 0, 0);
    heap_lock(h);
    heap_hand_over_locked(h);
    heap_unlock(h);
    make_unused(h, &unused_ids, HEAP_STRIDE);
}

/* Counted anew: a thread that began or ended may have been between its heap and the count. */
void heap_orphan_others(heap_orphans_t which) {
    uint32_t live = 0, orphans = 0;
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++) {
        heap_t *h = heap_by_id(id);
        uint32_t life = atomic_load_explicit(&h->life, memory_order_relaxed);
        bool is_live = life == HEAP_LIVE, is_retiring = life == HEAP_RETIRING;
        bool orphaned = (is_live && (which & HEAP_ORPHANS_LIVE) != 0 && &h->front != hk_front) ||
                        (is_retiring && (which & HEAP_ORPHANS_RETIRING) != 0);
        if (orphaned)
            atomic_store_explicit(&h->life, HEAP_ORPHAN, memory_order_relaxed);
        orphans += orphaned || life == HEAP_ORPHAN;
        live += is_live && !orphaned;
    }
    atomic_store_explicit(&orphan_count, orphans, memory_order_relaxed);
    atomic_store_explicit(&thread_heap_count, live + orphans, memory_order_relaxed);
}

static heap_t *claim_orphan(void) {
    heap_t *found = NULL;
    hk_lock(&hk_heap_list_lock);
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit() && found == NULL; id++) {
        heap_t *h = heap_by_id(id);
        if (atomic_load_explicit(&h->life, memory_order_relaxed) == HEAP_ORPHAN)
            found = h;
    }
    if (found != NULL) {
        atomic_store_explicit(&found->life, HEAP_RETIRING, memory_order_relaxed);
        atomic_fetch_sub_explicit(&orphan_count, 1, memory_order_relaxed);
    }
    hk_unlock(&hk_heap_list_lock);
    return found;
}

void heap_adopt_orphan(void) {
    if (hk_likely(atomic_load_explicit(&orphan_count, memory_order_relaxed) == 0))
        return;
    heap_t *orphan = claim_orphan();
    if (orphan == NULL)
        return;
    heap_retire_gone(orphan);
    heap_memory_freed(NULL);
}

/* The thread may have ended between two steps: by exit(2) in a signal handler. */
void heap_retire_gone(heap_t *h) {
    magazine_mend(h);
    heap_retire(h);
    atomic_fetch_sub_explicit(&thread_heap_count, 1, memory_order_relaxed);
}

bool heap_claim_gone(heap_t *h, bool (*is_gone)(const heap_t *)) {
    hk_lock(&hk_heap_list_lock);
    bool claimed = atomic_load_explicit(&h->life, memory_order_relaxed) == HEAP_LIVE && is_gone(h);
    if (claimed) {
        atomic_store_explicit(&h->life, HEAP_RETIRING, memory_order_relaxed);
        unnoticed_forget(h);
    }
    hk_unlock(&hk_heap_list_lock);
    return claimed;
}

/* --- Rest ------------------------------------------------------------------------------------------------------------ */

static size_t slots_of(const heap_t *h) { return atomic_load_explicit(&h->slot_count, memory_order_relaxed); }

/* A small heap whose thread is over rests as it is, with its magazines and slabs, for the next thread: threads that come and
 * go are mostly alike. Whoever looks after sleeping heaps sees one more of them. */
static bool may_rest(const heap_t *h) {
    return slots_of(h) <= REST_SLOTS_MAX && hk_option(HK_OPT_PURGE_DELAY) > 0 && !hardened_is_on() &&
           !heap_is_crowded() && !sys_purge_refused();
}

/* False when as many rest as threads may be without a crowd, or more than a few. */
static bool lie_down(heap_t *h) {
    h->ended_since_ms = sys_now_ms();
    hk_lock(&hk_heap_list_lock);
    bool fits = resting_count < hk_min(REST_HEAPS_MAX, atomic_load_explicit(&crowd, memory_order_relaxed));
    if (fits) {
        resting_count++;
        push_locked(&resting_ids, h, HEAP_RESTING, slots_of(h) * HK_SLOT_SIZE + h->magazine_bytes);
    }
    hk_unlock(&hk_heap_list_lock);
    return fits;
}

static bool rest(heap_t *h) {
    if (!may_rest(h))
        return false;
    magazine_drop_large(h);
    heap_remote_post_all(h);
    (void)large_cache_trim(&h->large, 0, 0);
    return lie_down(h);
}

size_t heap_ended_bytes(void) { return atomic_load_explicit(&ended_bytes, memory_order_relaxed); }

/* Takes those that have been on the list since `until_ms` or longer off it, for the caller alone. Returns the first. */
static uint32_t claim_since(uint32_t *ids, uint64_t until_ms) {
    hk_lock(&hk_heap_list_lock);
    while (*ids != 0 && heap_by_id(*ids)->ended_since_ms > until_ms)
        ids = &heap_by_id(*ids)->next_unused;
    uint32_t first = *ids;
    *ids = 0;
    for (uint32_t id = first; id != 0; id = heap_by_id(id)->next_unused)
        rise_locked(heap_by_id(id), HEAP_RETIRING);
    hk_unlock(&hk_heap_list_lock);
    return first;
}

void heap_retire_resting(uint64_t until_ms) {
    for (uint32_t id = claim_since(&resting_ids, until_ms); id != 0;) {
        heap_t *h = heap_by_id(id);
        id = h->next_unused;
        heap_retire(h);
    }
}

void heap_strip_unused(uint64_t until_ms) {
    for (uint32_t id = claim_since(&unused_ids, until_ms); id != 0;) {
        heap_t *h = heap_by_id(id);
        id = h->next_unused;
        magazine_drop_all(h);
        heap_record_give_back(h);
        make_unused(h, &bare_ids, 0);
    }
}

static void thread_ends(void *value) {
    heap_t *h = value;
    if (hk_front != &h->front)
        return;
    thread_over = true;
    hk_front = &hk_no_heap;
    if (!fork_attend())
        return;
    if (!rest(h))
        heap_retire(h);
    atomic_fetch_sub_explicit(&thread_heap_count, 1, memory_order_relaxed);
    heap_memory_freed(h);
}

/* --- Hooks and start ------------------------------------------------------------------------------------------------- */

/* Takes the hooks upon this thread; false when they are done. A process that was forked while another thread was at it, by a
 * fork that knew no handlers of ours yet, finds that thread's mark and not its own: it begins anew. */
static bool begin_hooks(void) {
    uint32_t mine = sys_process_id() << 1 | 1;
    for (;;) {
        uint32_t state = HOOKS_NONE;
        if (atomic_compare_exchange_strong_explicit(&hooks_state, &state, mine, memory_order_relaxed,
                                                    memory_order_relaxed))
            return true;
        /* Acquire: pairs with the release in heap_ensure_hooks, so that the thread key is there. */
        if (atomic_load_explicit(&hooks_state, memory_order_acquire) == HOOKS_DONE)
            return false;
        if (state != HOOKS_DONE && state != mine)
            (void)atomic_compare_exchange_strong_explicit(&hooks_state, &state, HOOKS_NONE, memory_order_relaxed,
                                                          memory_order_relaxed);
        else
            sys_futex_wait(&hooks_state, state, HOOKS_WAIT_MS);
    }
}

void heap_ensure_hooks(void) {
    if (hk_likely(atomic_load_explicit(&hooks_state, memory_order_acquire) == HOOKS_DONE) || !begin_hooks())
        return;
    in_hooks = true;
    (void)libc_thread_hooks_init(thread_ends);
    /* libc lets nobody register between the handlers of a fork and the fork itself. */
    (void)libc_fork_hooks_init(fork_prepare, fork_in_parent, fork_in_child);
    in_hooks = false;
    atomic_store_explicit(&hooks_state, HOOKS_DONE, memory_order_release);
}

static HK_COLD heap_t *heap_start(void) {
    if (thread_over || in_hooks || !heap_system_ready())
        return NULL;
    fork_return();
    if (hk_front != &hk_no_heap)
        return heap_of_front(hk_front);
    heap_ensure_hooks();
    unnoticed_end_some();
    hk_lock(&hk_heap_list_lock);
    heap_t *h = take_locked();
    hk_unlock(&hk_heap_list_lock);
    if (h == NULL)
        return NULL;
    if (atomic_fetch_add_explicit(&thread_heap_count, 1, memory_order_relaxed) >= CROWD_MIN)
        look_at_cpus();
    hk_front = &h->front;
    hk_count(heaps_total);
    if (libc_thread_register(h) != 0)
        unnoticed_note(h);
    return h;
}

heap_t *heap_current(void) {
    if (!fork_attend())
        return NULL;
    heap_front_t *front = hk_front;
    return hk_likely(front != &hk_no_heap) ? heap_of_front(front) : heap_start();
}

size_t heap_live_count(void) {
    size_t count = 0;
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++)
        count += atomic_load_explicit(&heap_by_id(id)->life, memory_order_relaxed) == HEAP_LIVE;
    return count;
}
