/* SPDX-License-Identifier: MIT */
#include "start/start.h"

#include "core/counters.h"
#include "core/panic.h"
#include "heap/budget.h"
#include "heap/wake.h"
#include "helper/helper.h"
#include "start/fork.h"
#include "start/init.h"
#include "sys/libc_doors.h"
#include "sys/sys.h"
#include "upkeep/life.h"
#include "upkeep/unnoticed.h"
#include "watch/guard.h"

enum { HOOKS_NONE = 0, HOOKS_DONE = 2, HOOKS_WAIT_MS = 1 };

/* Touched by their thread alone. */
static _Thread_local bool thread_over __attribute__((tls_model("initial-exec"))); /* it was told to die */
static _Thread_local bool in_hooks __attribute__((tls_model("initial-exec")));    /* libc may allocate for the hooks */

static _Atomic uint32_t hooks_state; /* HOOKS_*, or the process whose thread is at it: process id << 1 | 1 */

bool heap_system_ready(void) { return fork_attend() && init_ensure(); }

/* --- Hooks -------------------------------------------------------------------------------------------------------- */

static void thread_ends(void *value, bool comes_again) {
    heap_t *h = value;
    if (hk_front != &h->front)
        return;
    unnoticed_set(h, comes_again ? unnoticed_place() : 0);
    if (comes_again)
        return;
    thread_over = true;
    hk_front = &hk_no_heap;
    if (!fork_attend())
        return;
    life_end(h);
    heap_memory_freed(h);
}

/* Takes the hooks upon this thread; false when they are done. A process that was forked while another thread was at it,
 * by a fork that knew no handlers of ours yet, finds that thread's mark and not its own: it begins anew. */
static bool begin_hooks(void) {
    uint32_t mine = sys_process_id_unless_confined() << 1 | 1; /* confined: the hooks are done */
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
    heap_wake_by(helper_wake); /* no thread of ours without handlers for a fork */
    atomic_store_explicit(&hooks_state, HOOKS_DONE, memory_order_release);
}

/* --- The heap ----------------------------------------------------------------------------------------------------- */

static HK_COLD heap_t *heap_start(void) {
    if (thread_over || in_hooks || !heap_system_ready())
        return NULL;
    fork_return();
    if (hk_front != &hk_no_heap)
        return heap_of_front(hk_front);
    heap_ensure_hooks();
    unnoticed_end_some();
    heap_t *h = life_begin();
    if (h == NULL)
        return NULL;
    hk_assert(atomic_load_explicit(&h->life, memory_order_relaxed) == HEAP_LIVE);
    hk_front = &h->front; /* first: see fork_in_child */
    budget_thread_came();
    sample_new_thread(&h->draw);
    /* It learns of the profile, or that blocks are guarded, with this request. */
    if (h->draw.generation != sample_generation() || guard_interval() != 0)
        heap_run_out(h);
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
