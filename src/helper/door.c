/* SPDX-License-Identifier: MIT */
#include "helper/door.h"

#include "core/lock.h"
#include "core/panic.h"
#include "heap/wake.h"
#include "sys/sys.h"
#include "upkeep/round.h"

#include <stdatomic.h>

enum { DOOR_MS = 1 }; /* between two tries */

static hk_lock_t door = HK_LOCK_INIT(HK_RANK_HELPER);
static uint64_t signals_before; /* guarded by `door`: what the holder held back before */

bool hk_door_signals_held;

bool door_enter(door_enter_t how) {
    uint64_t before = 0;
    bool held = sys_signals_hold(SYS_SIGNALS_SENT, how == DOOR_TO_FORK, &before);
    bool entered = hk_try_lock(&door);
    if (!entered && how != DOOR_TRY) {
        hk_lock_wait(&door);
        entered = true;
    }
    if (entered) {
        signals_before = before;
        hk_door_signals_held = held;
    } else if (held) {
        sys_signals_release(before);
    }
    return entered;
}

bool door_enter_by(const sys_helper_t *self) {
    hk_assert(sys_helper_own() != NULL);
    while (!door_enter(DOOR_TRY)) {
        if (sys_helper_must_leave(self))
            return false;
        sys_futex_wait(&self->leave, 0, DOOR_MS);
    }
    return true;
}

void door_leave(void) {
    uint64_t before = signals_before;
    bool held = hk_door_signals_held;
    hk_unlock(&door);
    if (held)
        sys_signals_release(before);
}

/* Sequentially consistent: pairs with the fence in start_one (helper.c). */
void door_leave_looking(void) {
    door_leave();
    atomic_thread_fence(memory_order_seq_cst);
    if (upkeep_waits())
        heap_memory_freed_much();
}

void door_after_unseen_fork(void) { door = (hk_lock_t)HK_LOCK_INIT(HK_RANK_HELPER); }
