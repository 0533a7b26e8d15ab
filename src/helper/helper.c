/* SPDX-License-Identifier: MIT */
#include "helper/helper.h"

#include "core/lock.h"
#include "core/options.h"
#include "core/request.h"
#include "heap/wake.h"
#include "helper/control.h"
#include "helper/door.h"
#include "helper/home.h"
#include "helper/pressure.h"
#include "limit/limit.h"
#include "region/scarce.h"
#include "superslab/superslab.h"
#include "sys/confined.h"
#include "sys/sys.h"
#include "upkeep/round.h"

enum {
    HELPER_ROUND_MS_MAX = 125,
    HELPER_ROUND_MS_MIN = 10,
    HELPER_ROUNDS_IDLE_MAX = 8,
    UNSEEN_MS = 5, /* until the first look in a child that was made without handlers */
};

/* Guarded by the door, but for the words that are atomic. */
static _Atomic uint32_t helper_running; /* 1 from start until the helper has decided to leave */
static sys_helper_t helper;
static bool comes_back; /* after the fork; written and read by who forks */
static _Atomic uint64_t next_inline_purge_ms;
static _Atomic uint64_t helper_refused_ms; /* when the system last refused a helper; 0: never */

static const void
    *_Atomic forking_thread; /* that holds the door for a fork; compared by that thread with itself alone */

/* --- The helper thread -------------------------------------------------------------------------------------------- */

static uint32_t round_ms(void) {
    uint64_t quarter = upkeep_delay_ms() / 4;
    return (uint32_t)hk_max(HELPER_ROUND_MS_MIN, hk_min(quarter, HELPER_ROUND_MS_MAX));
}

bool helper_is_forking(void) { return atomic_load_explicit(&forking_thread, memory_order_relaxed) == hk_thread_self(); }

unsigned helper_threads(void) {
    return (unsigned)sys_helper_is_alive(&helper) + pressure_is_alive() + control_is_alive();
}

/* The kernel's count comes first: one of ours that ends after it makes the answer no. None starts under the door; where
 * one may, the answer is asked for three times (core/lock.c). A main thread that has left is counted for ever. */
bool helper_program_has_one_thread(void) {
    unsigned all = sys_thread_count(), ours = helper_threads();
    bool one = all == 1 + ours || (all == 2 + ours && sys_thread_is_gone(sys_process_id_unless_confined()));
    return one && home_is_here();
}

/* A process that soon ends with exit(2) of its last thread should not wait for a round to be over: `*look_ms` doubles
 * from look to look. */
static void wait_for_round(uint32_t *look_ms) {
    for (uint32_t left = round_ms(), slice; left > 0 && !sys_helper_must_leave(&helper); left -= slice) {
        slice = *look_ms < left ? *look_ms : left;
        sys_futex_wait(&helper.leave, 0, slice);
        sys_helper_end_if_last();
        *look_ms = *look_ms < HELPER_ROUND_MS_MAX ? *look_ms * 2 : *look_ms;
    }
}

/* Rounds until there is nothing to do; false when the helper must leave whatever there is. */
static bool helper_serve(void) {
    uint32_t look_ms = home_is_unseen() ? UNSEEN_MS : HELPER_ROUND_MS_MAX;
    for (unsigned idle = 0; idle < HELPER_ROUNDS_IDLE_MAX;) {
        wait_for_round(&look_ms);
        if (sys_helper_must_leave(&helper) || sys_helper_outlived_credentials())
            return false;
        home_work(1);
        if (hk_request_waits())
            hk_request_attend(HK_REQUEST_BY_HELPER);
        idle = upkeep_round() ? 0 : idle + 1;
        home_work(-1);
    }
    return true;
}

/* Runs without libc: see sys/helper_thread.c. Whoever frees memory before helper_running is 0 relies on this thread,
 * and whoever does later starts a new one once it is gone. So it looks once more: sequentially consistent, as the store
 * comes before the look. (Memory is counted under locks, whose operations order the other side; a cache of slots is
 * not, and may wait for the thread's next tick.) */
static void helper_run(void) {
    sys_helper_own_files();
    uint32_t none;
    do {
        bool asked_to = !helper_serve();
        atomic_store_explicit(&helper_running, 0, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst);
        if (asked_to || !upkeep_waits())
            return;
        none = 0;
    } while (
        atomic_compare_exchange_strong_explicit(&helper_running, &none, 1, memory_order_relaxed, memory_order_relaxed));
}

/* What the program has just freed at a limit is the program's: no stack of ours takes it first. */
static void launch_locked(void) {
    sys_process_mark_wipe();
    const bool may_start = helper.stack != NULL || !region_is_at_limit();
    atomic_store_explicit(&helper_running, 1, memory_order_relaxed);
    if (may_start && sys_helper_start(helper_run, &helper) == 0)
        return;
    atomic_store_explicit(&helper_refused_ms, sys_now_ms(), memory_order_relaxed);
    atomic_store_explicit(&helper_running, 0, memory_order_relaxed);
}

/* Starts a helper, or leaves it to who has the lock. True when none is running by then, and something waits: that of
 * threads which found the lock taken. Sequentially consistent: of two threads, of which one lets go of the lock and
 * then looks for memory, and the other has freed some and then tries the lock, one finds the other's. Model:
 * docs/models/helper.pml. */
static HK_COLD bool start_one(void) {
    atomic_thread_fence(memory_order_seq_cst);
    if (!door_enter(DOOR_TRY))
        return false;
    /* The last helper's stack may be in use for some microseconds yet. */
    bool waits = atomic_load_explicit(&helper_running, memory_order_relaxed) == 0;
    if (waits)
        sys_helper_wait_a_moment(&helper);
    bool gone = !sys_helper_is_alive(&helper);
    if (gone)
        launch_locked();
    door_leave();
    atomic_thread_fence(memory_order_seq_cst);
    return (gone || !waits) && atomic_load_explicit(&helper_running, memory_order_relaxed) == 0 && upkeep_waits();
}

/* False when the system refuses a helper: out of threads, or a tool that knows no such thread. */
static HK_COLD bool helper_start(void) {
    /* A child of vfork. A thread that it started would be one of its own, gone with its exec or its end, whatever lock
     * it holds. Nor does it go through the memory itself, where it may be killed. What it frees the parent gives
     * back. */
    bool again = true;
    while (again && !sys_is_recent(&helper_refused_ms)) {
        if (!home_is_here() && !home_moves_here())
            return true;
        again = start_one();
    }
    return !again;
}

/* The others are started under the same lock, so that whoever wants to be alone stops all. */
void helper_watch(void) {
    if (hk_likely(!pressure_is_wanted() && !control_is_wanted()) || hk_locks_are_open() || sys_is_confined() ||
        home_is_unseen() || !home_is_here())
        return;
    if (!door_enter(DOOR_TRY))
        return;
    pressure_start();
    control_start();
    door_leave_looking();
}

/* Without a helper, memory is given back by whoever frees some, not more often than a helper would. */
static void purge_inline(void) {
    uint64_t now = sys_now_ms();
    uint64_t next = atomic_load_explicit(&next_inline_purge_ms, memory_order_relaxed);
    if (now < next || !atomic_compare_exchange_strong_explicit(&next_inline_purge_ms, &next, now + round_ms(),
                                                               memory_order_relaxed, memory_order_relaxed))
        return;
    (void)upkeep_round();
}

/* Address space that the program itself may need for its next mapping, a thread's stack above all: no helper would be
 * in time. */
static void give_back_now(void) {
    if (superslab_waiting_bytes() < HEAP_WORTH_BYTES || sys_purge_refused() || hk_locks_are_open())
        return;
    (void)superslab_purge(SIZE_MAX);
    superslab_close_empty();
}

void helper_wake(void) {
    /* What a thread of ours frees under the door waits for a helper, or for the next that frees: without the door it
     * takes no other lock. */
    if (sys_helper_own() != NULL) {
        if (hk_option(HK_OPT_BACKGROUND) != 0)
            (void)helper_start();
        return;
    }
    if (hk_unlikely(region_is_at_limit()))
        give_back_now();
    bool has_helper = atomic_load_explicit(&helper_running, memory_order_relaxed) != 0 && sys_helper_is_alive(&helper);
    if (has_helper || upkeep_delay_ms() == UINT64_MAX || sys_purge_refused() || hk_locks_are_open() ||
        sys_process_mark() != SYS_MARK_KNOWN)
        return;
    if (upkeep_delay_ms() == 0 && !limit_is_near())
        (void)superslab_purge(SIZE_MAX);
    /* What is left lies inside slabs. */
    if (HK_TSAN || hk_option(HK_OPT_BACKGROUND) == 0 || sys_is_confined() || !helper_start())
        purge_inline();
}

/* --- When the process must be alone ------------------------------------------------------------------------------- */

/* The helper leaves. None starts while the caller holds the lock. */
static void helper_dismiss_locked(void) {
    if (!sys_helper_is_here(&helper))
        return;
    sys_helper_dismiss(&helper);
    (void)sys_helper_wait(&helper);
}

void hk_threads_pause(void) {
    if (helper_is_forking())
        return; /* it holds the lock, and there are none */
    (void)door_enter(DOOR_WAIT);
    helper_dismiss_locked();
    pressure_dismiss();
    control_dismiss();
}

/* Nothing starts at once: a program that asked for one thing of this kind may be about to ask for the next. */
void hk_threads_resume(void) {
    if (!helper_is_forking())
        door_leave();
}

bool helper_before_fork(void) {
    (void)door_enter(DOOR_TO_FORK);
    atomic_store_explicit(&forking_thread, hk_thread_self(), memory_order_relaxed);
    comes_back = atomic_load_explicit(&helper_running, memory_order_relaxed) != 0;
    helper_dismiss_locked();
    return !sys_helper_is_here(&helper);
}

/* What was freed goes now, as no helper comes back for it: cheaper than its pages would be in the tables of two
 * processes, and at the first write after the fork. */
void helper_alone_before_fork(void) {
    if (!comes_back)
        return;
    comes_back = false;
    (void)heap_relieve();
}

/* Threads of ours do not exist in a child. */
static void forget_threads(void) {
    sys_helper_forget(&helper);
    atomic_store_explicit(&helper_running, 0, memory_order_relaxed);
    home_after_fork_in_child();
    upkeep_after_fork_in_child();
    pressure_after_fork_in_child();
    control_after_fork_in_child();
}

void helper_after_unseen_fork(bool holds_signals) {
    home_set_unseen(true);
    atomic_store_explicit(&forking_thread, NULL, memory_order_relaxed);
    door_after_unseen_fork();
    forget_threads();
    sys_passages_after_fork(holds_signals);
}

void helper_after_fork(bool in_child, bool alone) {
    if (in_child) {
        home_set_unseen(false);
        forget_threads();
        sys_passages_after_fork(door_holds_signals());
    }
    atomic_store_explicit(&helper.leave, 0, memory_order_relaxed); /* for one that was too busy to leave */
    bool wanted = comes_back;
    atomic_store_explicit(&forking_thread, NULL, memory_order_relaxed);
    /* A process that is alone stays so: CPython looks at its number of threads after the fork, and a child may have to
     * be single-threaded for a while (unshare(2)). */
    if (in_child || alone) {
        door_leave();
        return;
    }
    door_leave_looking();
    if (wanted || limit_is_near())
        helper_wake();
}

/* --- The start ---------------------------------------------------------------------------------------------------- */

/* Threads of ours that are not at work left out. */
static bool waits_for_itself(void) { return !home_is_at_work() && helper_program_has_one_thread(); }

void helper_init(void) {
    hk_lock_doubt = waits_for_itself;
    home_settle();
}
