/* SPDX-License-Identifier: MIT
 *
 * request.h: what a tool outside wants of this process (`hakmem trim PID`): words that the tool writes into our
 * memory, and that our threads look at where they are slow anyway.
 *
 * Their writer has the right to change any memory of the process (ptrace(2)), so they open no door. Values are
 * checked all the same, as those of hak_option_set. A process that never goes a slow path (an idle one) follows no
 * request, and pays nothing.
 *
 *   asker, outside                                   a thread of this process
 *     order ............ written first
 *     nonce ............ written last, not 0
 *                                                    takes the nonce: 0 from then on
 *                                                    carries the order out, under no lock of ours
 *                                                    status, result, by; then answer = nonce
 *     reads answer until it is its nonce
 *
 * REQUEST-1  Who exchanges a nonce for 0 carries the order out, alone.
 * REQUEST-2  Words are added at the end alone: inspect/record.def says where each lies.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

/* Numbers that the tool writes: appended only. 6 was never sent. */
typedef enum hk_command {
    HK_COMMAND_TRIM = 1,          /* result: bytes given back */
    HK_COMMAND_LIMIT = 2,         /* arguments: soft, hard */
    HK_COMMAND_OPTION = 3,        /* text: NAME=VALUE */
    HK_COMMAND_PROFILE_START = 4, /* arguments: interval in bytes */
    HK_COMMAND_PROFILE_STOP = 5,
    HK_COMMAND_STATISTICS = 7,    /* result: where a text of them lies, as hak_stats_format writes it for JSON */
    HK_COMMAND_PROFILE_WRITE = 8, /* argument: a descriptor; by the socket alone */
} hk_command_t;

enum { HK_REQUEST_ARGUMENTS = 4, HK_REQUEST_TEXT = 256 };

/* Written outside, read by the thread that takes the nonce. */
typedef struct hk_order {
    uint64_t command;
    uint64_t arguments[HK_REQUEST_ARGUMENTS];
    char text[HK_REQUEST_TEXT];
} hk_order_t;

typedef enum hk_request_by {
    HK_REQUEST_BY_THREAD = 1,
    HK_REQUEST_BY_HELPER = 2,
    HK_REQUEST_BY_CONTROL = 3, /* by order through the socket (helper/control.h); that thread has no heap either */
} hk_request_by_t;

typedef struct hk_request {
    _Atomic uint64_t nonce; /* written outside, and by the thread that takes it; read on slow paths */
    _Atomic uint64_t answer;
    _Atomic int64_t status; /* 0, or an errno; these three are written by the thread that carried it out */
    _Atomic uint64_t result;
    _Atomic uint64_t by; /* hk_request_by_t */
    hk_order_t order;
} hk_request_t;

extern hk_request_t hk_request HK_HIDDEN;

/* Relaxed: a request that is seen a call later is in time. */
HK_INLINE bool hk_request_waits(void) {
    return hk_unlikely(atomic_load_explicit(&hk_request.nonce, memory_order_relaxed) != 0);
}

/* Carries an order out; returns 0 or an errno. Comes from a room above. Without libc and thread-local storage when it
 * is the helper's. */
typedef int hk_request_follow_t(const hk_order_t *order, hk_request_by_t by, uint64_t *result);
void hk_request_by(hk_request_follow_t *follow);

/* Does what waits, if nobody else does. No lock is held. */
HK_COLD void hk_request_attend(hk_request_by_t by);

/* Carries an order out that came another way. The door is held (helper/door.h). */
int hk_request_do(const hk_order_t *order, hk_request_by_t by, uint64_t *result);

/* In the child of a fork: the request was the parent's. */
void hk_request_forget(void);
