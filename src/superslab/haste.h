/* SPDX-License-Identifier: MIT
 *
 * haste.h: how much memory may go back to the kernel before it has lain free for the delay.
 *
 * While memory grows, what lies free and does not serve goes back in haste, so that a phase that is over pays for the
 * next one. A slot that is needed again after all has cost a system call, sixteen page faults and their zeros. So haste
 * is paid from a credit, in slots. Time brings credit; a slot that goes takes one; and one that is taken again within
 * the delay takes HASTE_REGRET more. A program that frees and takes the same memory soon has none, and its memory goes
 * by the delay alone; one whose phases differ has enough. The process need not grow by our memory to be in haste: slots
 * that lie free all through a round and are more than half of those in use are of a phase that is over.
 *
 * The functions of haste_t are pure: the clock is an argument.
 */
#pragma once

#include "superslab/pool.h"

enum {
    HASTE_CREDIT_A_MS = 1,
    HASTE_CREDIT_MAX = 1024, /* what can be saved up, and what a process begins with: 64 MiB */
    HASTE_DEBT_MAX = 8192,
    HASTE_REGRET = 4,
    HASTE_KEEP_SHARE = 2, /* this part of what is in use may lie free while memory does not grow */
};

typedef struct haste {
    size_t spent; /* of HASTE_CREDIT_MAX; beyond it a debt */
    uint64_t at_ms;
} haste_t;

/* How many slots may go now. */
HK_INLINE size_t haste_allows(haste_t *haste, uint64_t now_ms) {
    uint64_t passed = haste->at_ms == 0 ? 0 : now_ms - hk_min(now_ms, haste->at_ms);
    haste->spent -= hk_min(haste->spent, passed * HASTE_CREDIT_A_MS);
    haste->at_ms = now_ms;
    return HASTE_CREDIT_MAX - hk_min(haste->spent, HASTE_CREDIT_MAX);
}

/* So many slots went in haste. */
HK_INLINE void haste_spend(haste_t *haste, size_t slot_count) {
    haste->spent = hk_min(haste->spent + hk_min(slot_count, HASTE_DEBT_MAX), HASTE_CREDIT_MAX + HASTE_DEBT_MAX);
}

/* So many of them are needed again. */
HK_INLINE void haste_regret(haste_t *haste, size_t slot_count) {
    haste_spend(haste, hk_min(slot_count, HASTE_DEBT_MAX) * HASTE_REGRET);
}

/* Of `unneeded` slots that lay free all through a round, beside `used` ones, so many should go now: all while memory
 * grows, or else what is more than half of what is in use. */
HK_INLINE size_t haste_wants(size_t unneeded, size_t used, bool grows) {
    return grows ? unneeded : unneeded - hk_min(unneeded, used / HASTE_KEEP_SHARE);
}

/* --- The credit of the process ----------------------------------------------------------------------------------- */

/* How many slots may go now. */
size_t haste_allowance(void);

/* Whether anything may go in haste; and so many bytes went of what is no slot of the pool. */
HK_INLINE bool superslab_may_haste(void) { return haste_allowance() > 0; }
void superslab_went_in_haste(size_t bytes);

/* Slots are taken of which some went back in haste. */
void pool_regret_locked(superslab_t *s, uint32_t mask);
