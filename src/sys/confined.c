/* SPDX-License-Identifier: MIT */
#include "sys/confined.h"

#include "sys/futex.h"
#include "sys/kernel.h"
#include "sys/raw_call.h"

#include <errno.h>

_Atomic bool hk_confined;
_Atomic uint32_t hk_passages;
_Atomic bool hk_new_calls_allowed;

/* Release: pairs with the acquire in sys_wait_for_passages; the calls are made before the filter is there. */
void sys_passage_end(void) {
    uint32_t count = atomic_load_explicit(&hk_passages, memory_order_relaxed);
    while (count > 0 && !atomic_compare_exchange_weak_explicit(&hk_passages, &count, count - 1, memory_order_release,
                                                               memory_order_relaxed))
        continue;
}

bool sys_passage_begin(void) {
    (void)atomic_fetch_add_explicit(&hk_passages, 1, memory_order_seq_cst);
    if (hk_likely(!atomic_load_explicit(&hk_confined, memory_order_seq_cst)))
        return true;
    sys_passage_end();
    return false;
}

long sys_passage_call(long number, long a, long b, long c, long d, long e, long f) {
    if (!sys_passage_begin())
        return -EPERM;
    long got = sys_call6(number, a, b, c, d, e, f);
    sys_passage_end();
    return got;
}

void sys_wait_for_passages(void) {
    enum { WAIT_MS = 1, WAITS_MAX = 1000 };
    for (int i = 0; i < WAITS_MAX; i++) {
        /* Sequentially consistent: see sys_passage_begin. Acquire: pairs with the release in sys_passage_end. */
        uint32_t left = atomic_load_explicit(&hk_passages, memory_order_seq_cst);
        if (left == 0)
            return;
        sys_futex_wait(&hk_passages, left, WAIT_MS);
    }
}

bool sys_is_filtered(void) {
    enum { UNKNOWN = 0, FREE, FILTERED };
    static _Atomic int answer;
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known == UNKNOWN) {
        known = sys_call2(SYS_prctl, PR_GET_SECCOMP, 0) > 0 ? FILTERED : FREE;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known == FILTERED;
}
