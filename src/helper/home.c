/* SPDX-License-Identifier: MIT */
#include "helper/home.h"

#include "sys/confined.h"
#include "sys/sys.h"

#include <stdatomic.h>

static _Atomic unsigned home_process; /* written at the start and in children */
static _Atomic uint32_t at_work;      /* threads of ours that may hold a lock */

/* Relaxed: written before its first look by the thread that looks, or under the door. */
static _Atomic bool is_unseen;

void home_set_unseen(bool unseen) { atomic_store_explicit(&is_unseen, unseen, memory_order_relaxed); }
bool home_is_unseen(void) { return atomic_load_explicit(&is_unseen, memory_order_relaxed); }

void home_settle(void) {
    if (!sys_is_confined())
        atomic_store_explicit(&home_process, sys_process_id(), memory_order_relaxed);
}

bool home_is_here(void) { return atomic_load_explicit(&home_process, memory_order_relaxed) == sys_process_id(); }

bool home_moves_here(void) {
    if (sys_may_share_memory(atomic_load_explicit(&home_process, memory_order_relaxed)))
        return false;
    home_settle();
    home_set_unseen(true);
    return true;
}

/* Release: pairs with the acquire below; who finds nobody at work finds the locks as they left them. */
void home_work(int by) { atomic_fetch_add_explicit(&at_work, (uint32_t)by, memory_order_release); }

bool home_is_at_work(void) { return atomic_load_explicit(&at_work, memory_order_acquire) != 0; }

void home_after_fork_in_child(void) { atomic_store_explicit(&at_work, 0, memory_order_relaxed); }
