/* SPDX-License-Identifier: MIT */
#include "core/request.h"

#include <errno.h>

hk_request_t hk_request __attribute__((aligned(64)));

static hk_request_follow_t *_Atomic follower; /* NULL until it is set */

void hk_request_by(hk_request_follow_t *follow) { atomic_store_explicit(&follower, follow, memory_order_relaxed); }

int hk_request_do(const hk_order_t *order, hk_request_by_t by, uint64_t *result) {
    hk_request_follow_t *follow = atomic_load_explicit(&follower, memory_order_relaxed);
    return follow != NULL ? follow(order, by, result) : EAGAIN;
}

void hk_request_attend(hk_request_by_t by) {
    hk_request_follow_t *follow = atomic_load_explicit(&follower, memory_order_relaxed);
    if (follow == NULL)
        return;
    /* Acquire: the asker wrote the order by a system call before the one that wrote the nonce. */
    uint64_t nonce = atomic_exchange_explicit(&hk_request.nonce, 0, memory_order_acquire);
    if (nonce == 0)
        return;
    uint64_t result = 0;
    int status = follow(&hk_request.order, by, &result);
    atomic_store_explicit(&hk_request.status, status, memory_order_relaxed);
    atomic_store_explicit(&hk_request.result, result, memory_order_relaxed);
    atomic_store_explicit(&hk_request.by, by, memory_order_relaxed);
    /* Release: an asker that reads this nonce then reads the status, the result and by whom that belong to it. */
    atomic_store_explicit(&hk_request.answer, nonce, memory_order_release);
}

void hk_request_forget(void) { atomic_store_explicit(&hk_request.nonce, 0, memory_order_relaxed); }
