/* SPDX-License-Identifier: MIT */
#include "helper/home.h"

#include "sys/sys.h"

static _Atomic unsigned home_process; /* written at the start and in children */

_Atomic uint32_t hk_home_work;
_Atomic bool hk_home_is_unseen;

void home_settle(void) {
    unsigned process = sys_process_id_unless_confined();
    if (process != 0)
        atomic_store_explicit(&home_process, process, memory_order_relaxed);
}

bool home_is_here(void) {
    return atomic_load_explicit(&home_process, memory_order_relaxed) == sys_process_id_unless_confined();
}

bool home_moves_here(void) {
    if (sys_may_share_memory(atomic_load_explicit(&home_process, memory_order_relaxed)))
        return false;
    home_settle();
    home_set_unseen(true);
    return true;
}
