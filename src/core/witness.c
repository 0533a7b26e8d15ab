/* SPDX-License-Identifier: MIT */
#include "core/witness.h"

#include "core/lock.h"
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

static _Noreturn void stop(const hk_lock_t *lock, const char *rule, const char *held) {
    hk_fatal("%s is broken: a thread waits for the lock of %s and holds that of %s (unless a signal handler that has "
             "interrupted malloc or free called either: see signal-safety(7))",
             rule, names[lock->rank], held);
}

/* In a release build nobody calls these, and nothing of them is left. */

void witness_waits(const hk_lock_t *lock) {
    if (!HK_CHECK)
        return;
    const witness_t *w = mine();
    if (lock->rank == HK_RANK_TRIED)
        hk_fatal("LOCK-3 is broken: a thread waits for a lock of %s", names[HK_RANK_TRIED]);
    for (unsigned rank = HK_RANK_COUNT - 1; rank > lock->rank; rank--)
        if (w->held[rank] != 0)
            stop(lock, "LOCK-1", names[rank]);
    bool one_of_several = lock->rank > HK_RANK_HEAP_LIST && w->held[HK_RANK_HEAP_LIST] != 0;
    if (w->held[lock->rank] != 0 && !one_of_several)
        stop(lock, "LOCK-2", names[lock->rank]);
}

void witness_took(const hk_lock_t *lock) {
    if (HK_CHECK && lock->rank != HK_RANK_TRIED)
        mine()->held[lock->rank]++;
}

void witness_leaves(const hk_lock_t *lock) {
    if (!HK_CHECK || lock->rank == HK_RANK_TRIED)
        return;
    witness_t *w = mine();
    if (w->held[lock->rank] == 0)
        hk_fatal("LOCK-4 is broken: a thread gives back the lock of %s and holds none", names[lock->rank]);
    w->held[lock->rank]--;
}
