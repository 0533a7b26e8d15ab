/* SPDX-License-Identifier: MIT */
#include "start/fork.h"

#include "core/lock.h"
#include "core/request.h"
#include "heap/heap.h"
#include "heap/magazine.h"
#include "helper/helper.h"
#include "helper/home.h"
#include "large/huge.h"
#include "map/meta.h"
#include "start/emergency.h"
#include "start/init.h"
#include "superslab/superslab.h"
#include "sys/libc_doors.h"
#include "upkeep/life.h"
#include "upkeep/record.h"
#include "upkeep/unnoticed.h"
#include "watch/guard.h"

enum { ATTENDED_WAIT_MS = 1 };

static bool forks_alone; /* under the lock of the helper's start and stop */

/* A stranded thread's heap, to which it returns. */
static _Thread_local heap_front_t *left_front __attribute__((tls_model("initial-exec")));

/* --- All locks ---------------------------------------------------------------------------------------------------- */

/* Until one says no. */
static bool for_ids(uint32_t id, uint32_t limit, bool (*act)(heap_t *)) {
    while (id < limit && act(heap_by_id(id)))
        id++;
    return id >= limit;
}

static bool for_each_heap(bool (*act)(heap_t *)) {
    return for_ids(HK_OWNER_FIRST, heap_limit(), act) && for_ids(HK_OWNER_EXPLICIT, heap_explicit_limit(), act);
}

/* In the order of ranks; NULL: those of heaps, and then that of the shared one. */
static hk_lock_t *const locks[] = {&hk_heap_list_lock, &hk_record_lock, NULL,          &hk_huge_lock,
                                   &hk_superslab_lock, &hk_region_lock, &hk_meta_lock, &hk_sample_lock};
enum { LOCKS = sizeof locks / sizeof *locks };

/* In the order of ranks, until one says no. */
static bool for_each_lock(bool (*act)(hk_lock_t *), bool (*of_heap)(heap_t *)) {
    bool goes_on = true;
    for (unsigned i = 0; i < LOCKS && goes_on; i++)
        goes_on = locks[i] != NULL ? act(locks[i]) : for_each_heap(of_heap) && act(&heap_shared()->lock);
    return goes_on;
}

static bool take(hk_lock_t *lock) {
    hk_lock(lock);
    return true;
}

static bool is_free(hk_lock_t *lock) { return atomic_load_explicit(&lock->word, memory_order_relaxed) == 0; }

static bool heap_is_free(heap_t *h) { return is_free(&h->lock); }

/* A heap that is nobody's is left alone, as a write would copy its record: there may be thousands. Nobody makes it
 * somebody's meanwhile, as that takes the lock of the list. Others may come with what they remember of it, and pass on
 * a message to it that came after this look: a child has less by that message then, and takes the lock from a thread
 * that it has not. */
static bool is_nobodys(heap_t *h) {
    return atomic_load_explicit(&h->life, memory_order_relaxed) == HEAP_UNUSED &&
           atomic_load_explicit(&h->inbox, memory_order_relaxed) == NULL && heap_is_free(h);
}

static bool lock_heap(heap_t *h) {
    if (is_nobodys(h))
        return true;
    return h->is_held_by_fork = take(&h->lock);
}

static bool unlock_heap(heap_t *h) {
    if (h->is_held_by_fork) {
        h->is_held_by_fork = false;
        hk_unlock(&h->lock);
    }
    return true;
}

/* In a child. */
static bool free_nobodys(heap_t *h) {
    if (h->is_held_by_fork || heap_is_free(h))
        return true;
    atomic_store_explicit(&h->lock.word, 0, memory_order_relaxed);
    return true;
}

static bool locks_are_free(void) {
    if (!heap_system_has_started())
        return !heap_system_is_starting();
    return for_each_lock(is_free, heap_is_free);
}

enum { INTERRUPTED_WAIT_MS = 50 /* longer than another thread has a lock, and than who waits for exit minds */ };

static hk_lock_t *stuck; /* the thread that exits */

static bool comes_free(hk_lock_t *lock) {
    const bool is = hk_lock_within(lock, INTERRUPTED_WAIT_MS);
    if (is)
        hk_unlock(lock);
    else
        stuck = lock;
    return is;
}

static bool heap_comes_free(heap_t *h) { return comes_free(&h->lock); }

/* One by one, as each is held for moments; the sampler's last. */
const hk_lock_t *fork_stuck_lock(void) {
    stuck = NULL;
    if (!for_each_lock(comes_free, heap_comes_free))
        witness_forget();
    return stuck;
}

static bool own_heap_is_whole(void) {
    heap_front_t *front = left_front != NULL ? left_front : hk_front;
    return front == &hk_no_heap || !magazine_is_between(heap_of_front(front));
}

/* No frame of malloc or free that this one has interrupted is at work on what this process would use. */
static bool is_whole(void) { return locks_are_free() && own_heap_is_whole(); }

/* Every lock in the order of ranks; the forking thread holds them across fork, so that the child finds whole data. */
static void lock_all(void) {
    (void)for_each_lock(take, lock_heap);
    atomic_store_explicit(&hk_fork_owner, hk_thread_self(), memory_order_relaxed);
}

static void release_all(void) {
    atomic_store_explicit(&hk_fork_owner, NULL, memory_order_relaxed);
    for (unsigned i = LOCKS; i-- > 0;) {
        hk_unlock(locks[i] != NULL ? locks[i] : &heap_shared()->lock);
        if (locks[i] == NULL)
            (void)for_each_heap(unlock_heap);
    }
}

/* --- The mark ----------------------------------------------------------------------------------------------------- */

static bool owed; /* what comes after an unseen fork, to a child that was stranded; under the mark ATTENDED */

/* What this thread frees or allocates must not come to the magazines before the interrupted frame has gone on. */
static void leave_heap(void) {
    if (hk_front == &hk_no_heap)
        return;
    left_front = hk_front;
    hk_front = &hk_no_heap;
}

static void strand(void) {
    leave_heap();
    emergency_open();
    sys_process_mark_set(SYS_MARK_STRANDED);
}

/* What threads of ours were at: heaps that they were retiring, slots on their way to the kernel. Threads of the program
 * that do not exist here may be more than libc knows of: their heaps stay as they are. */
static void finish_unseen(void) {
    heap_orphan_others(HEAP_ORPHANS_RETIRING);
    superslab_after_fork();
    owed = false;
}

/* What a child has of its own, by its one thread. */
static void settle_in_child(void) {
    home_settle();
    unnoticed_after_fork();
    sample_after_fork();
    scatter_after_fork();
    guard_after_fork();
}

/* In a child that was made without the handlers: by its first thread that gets here. */
static void attend_new(bool holds_signals) {
    settle_in_child();
    helper_after_unseen_fork(holds_signals);
    owed = true;
    if (!is_whole()) {
        strand();
        return;
    }
    finish_unseen();
    sys_process_mark_set(SYS_MARK_KNOWN);
}

/* All is whole again. */
static void attend_stranded(bool holds_signals) {
    (void)holds_signals;
    if (owed)
        finish_unseen();
    sys_process_mark_set(SYS_MARK_KNOWN);
}

/* Without signals that others send: a handler would wait for its own thread. */
static void attend_alone(uint32_t mark, void (*attend)(bool holds_signals)) {
    uint64_t before = 0;
    bool held = sys_signals_hold(SYS_SIGNALS_SENT, false, &before);
    if (sys_process_mark_change(&mark, SYS_MARK_ATTENDED))
        attend(held);
    if (held)
        sys_signals_release(before);
}

void fork_return(void) {
    if (left_front == NULL)
        return;
    hk_front = left_front;
    left_front = NULL;
}

HK_COLD bool fork_attend_slow(void) {
    /* Between the fork and our handler, in a handler that was registered before it. */
    if (helper_is_forking())
        return true;
    for (;;) {
        uint32_t mark = sys_process_mark();
        if (mark == SYS_MARK_KNOWN)
            return true;
        if (mark == SYS_MARK_NEW)
            attend_alone(mark, attend_new);
        else if (mark == SYS_MARK_ATTENDED)
            sys_process_mark_wait(mark, ATTENDED_WAIT_MS);
        else if (is_whole())
            attend_alone(mark, attend_stranded);
        else
            break;
    }
    leave_heap();
    return false;
}

/* --- The handlers ------------------------------------------------------------------------------------------------- */

/* No thread of the program can hold a lock but this one. libc does not know that threads have ended, or does not
 * tell. */
static bool is_alone(void) { return libc_is_single_threaded() || helper_program_has_one_thread(); }

/* Nobody else can hold a lock in a process of one thread. One that is held is so by a malloc or free that the signal
 * handler which forks has interrupted: it goes on where it was, in the parent and in the child. */
void fork_prepare(void) {
    libc_lock_streams();
    bool whole = fork_attend();
    forks_alone = (helper_before_fork() && is_alone()) || !whole;
    if (!forks_alone)
        lock_all();
    else if (whole && is_whole())
        helper_alone_before_fork();
}

void fork_in_parent(void) {
    if (!forks_alone)
        release_all();
    helper_after_fork(false, forks_alone);
    libc_unlock_streams(false);
}

void fork_in_child(void) {
    fork_return();
    settle_in_child();
    if (!forks_alone) {
        heap_orphan_others(HEAP_ORPHANS_ALL);
        (void)for_each_heap(free_nobodys);
        release_all();
        superslab_after_fork();
    }
    bool whole = is_whole();
    /* Of threads whose end nobody told; what is being retired is so by an interrupted frame. A thread without a heap
     * may have been interrupted in its start: one of the live ones may be its own in a moment. */
    if (forks_alone && whole && hk_front != &hk_no_heap)
        heap_orphan_others(HEAP_ORPHANS_LIVE);
    hk_request_forget();
    helper_after_fork(true, forks_alone);
    if (whole)
        sys_process_mark_set(SYS_MARK_KNOWN);
    else
        strand();
    libc_unlock_streams(true);
}
