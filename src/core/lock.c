/* SPDX-License-Identifier: MIT */
#include "core/lock.h"

#include "core/panic.h"
#include "sys/sys.h"

enum {
    SPINS_BEFORE_SLEEP = 100,
    DOUBT_MS = 2000, /* a wait of so long may be one for ever */
};

bool (*hk_lock_doubt)(void);

_Atomic uint64_t hk_lock_wait_count;
const void *_Atomic hk_fork_owner;
static _Thread_local char thread_mark __attribute__((tls_model("initial-exec")));

HK_COLD const void *hk_thread_self(void) { return &thread_mark; }

/* Returns when to begin to doubt anew. */
static uint64_t doubt(uint64_t begin_ms) {
    uint64_t now = sys_now_ms();
    if (now - begin_ms < DOUBT_MS || hk_lock_doubt == NULL)
        return begin_ms;
    if (hk_lock_doubt())
        hk_fatal(
            "malloc or free was called in a signal handler that has interrupted malloc or free, and would wait for "
            "itself for ever: see signal-safety(7)");
    return now;
}

HK_COLD void hk_lock_wait(hk_lock_t *lock) {
    atomic_fetch_add_explicit(&hk_lock_wait_count, 1, memory_order_relaxed);
    for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 && hk_try_lock(lock))
            return;
        sys_cpu_relax();
    }
    uint64_t begin_ms = sys_now_ms();
    /* Acquire: pairs with the release in hk_unlock. From here on the word says 2 while we may sleep or have slept. */
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
        sys_futex_wait(&lock->word, 2, DOUBT_MS);
        begin_ms = doubt(begin_ms);
    }
}

HK_COLD void hk_lock_wake(hk_lock_t *lock) { sys_futex_wake(&lock->word, 1); }
