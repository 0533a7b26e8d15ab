/* SPDX-License-Identifier: MIT */
#include "core/witness.h"

#include "core/panic.h"
#include "sys/sys.h"

typedef struct witness {
    uint32_t held[HK_RANK_COUNT]; /* locks of each rank; none of TRIED is counted */
} witness_t;

_Static_assert(sizeof(witness_t) <= SYS_HELPER_OWN_BYTES, "a helper has room for one");

#define RANK_NAME(name, what) what,
static const char *const names[HK_RANK_COUNT] = {HK_RANKS(RANK_NAME)};
#undef RANK_NAME

static _Thread_local witness_t of_program __attribute__((tls_model("initial-exec")));

/* A function apart: a thread of ours must not compute an address in thread-local storage. */
static HK_NOINLINE witness_t *of_program_thread(void) { return &of_program; }

static witness_t *mine(void) {
    witness_t *own = sys_helper_own();
    return own != NULL ? own : of_program_thread();
}

static _Noreturn void stop(uint32_t rank, const char *rule, const char *held) {
    hk_fatal("%s is broken: a thread waits for the lock of %s and holds that of %s (unless a signal handler that has "
             "interrupted malloc or free called either: see signal-safety(7))",
             rule, names[rank], held);
}

/* In a release build nobody calls these, and nothing of them is left. */

void witness_waits(uint32_t rank) {
    if (!HK_CHECK)
        return;
    const witness_t *w = mine();
    if (rank == HK_RANK_TRIED)
        hk_fatal("LOCK-3 is broken: a thread waits for a lock of %s", names[HK_RANK_TRIED]);
    for (unsigned higher = HK_RANK_COUNT - 1; higher > rank; higher--)
        if (w->held[higher] != 0)
            stop(rank, "LOCK-1", names[higher]);
    bool one_of_several = rank > HK_RANK_HEAP_LIST && w->held[HK_RANK_HEAP_LIST] != 0;
    if (w->held[rank] != 0 && !one_of_several)
        stop(rank, "LOCK-2", names[rank]);
}

void witness_took(uint32_t rank) {
    if (HK_CHECK && rank != HK_RANK_TRIED)
        mine()->held[rank]++;
}

void witness_leaves(uint32_t rank) {
    if (!HK_CHECK || rank == HK_RANK_TRIED)
        return;
    witness_t *w = mine();
    if (w->held[rank] == 0)
        hk_fatal("LOCK-4 is broken: a thread gives back the lock of %s and holds none", names[rank]);
    w->held[rank]--;
}

void witness_forget(void) {
    if (HK_CHECK)
        *mine() = (witness_t){0};
}

bool witness_holds(uint32_t rank) { return !HK_CHECK || rank == HK_RANK_TRIED || mine()->held[rank] != 0; }
