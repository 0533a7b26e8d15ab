/* SPDX-License-Identifier: MIT */
#include "core/lock.h"

#include "core/panic.h"
#include "sys/sys.h"

enum {
    SPINS_BEFORE_SLEEP = 500, /* 10 - 25 us: others wait as well, and each has the pool's lock for 1 us */
    SPINS_AT_ONCE = 16,       /* ... between two looks, at most */
    DOUBT_MS = 2000,          /* a wait of so long may be one for ever, */
    DOUBTS = 3,               /* ... and is when so many looks say so */
};

bool (*hk_lock_doubt)(void);

_Atomic uint64_t hk_lock_wait_count;
const void *_Atomic hk_fork_owner;
static _Thread_local char thread_mark __attribute__((tls_model("initial-exec")));

HK_COLD const void *hk_thread_self(void) { return &thread_mark; }

/* A wait that has lasted for a while, and may last for ever. */
typedef struct doubt {
    uint64_t since_ms;
    unsigned times; /* in succession, the lock being held each time */
} doubt_t;

/* The process may have been stopped meanwhile, and the holder may have let go only just now: so once is not enough. */
static void consider(doubt_t *doubt) {
    uint64_t now = sys_now_ms();
    if (now - doubt->since_ms < DOUBT_MS || hk_lock_doubt == NULL)
        return;
    doubt->since_ms = now;
    doubt->times = hk_lock_doubt() ? doubt->times + 1 : 0;
    if (doubt->times == DOUBTS)
        hk_fatal("malloc or free in a signal handler that has interrupted malloc or free, or in a child made there, "
                 "would wait for itself: see signal-safety(7)");
}

HK_COLD void hk_lock_wait(hk_lock_t *lock) {
    if (HK_CHECK)
        witness_waits(lock->rank);
    atomic_fetch_add_explicit(&hk_lock_wait_count, 1, memory_order_relaxed);
    /* Each look takes the line from who has the lock, so they are further and further apart. */
    for (size_t spins = 0, pause = 1; spins < SPINS_BEFORE_SLEEP; pause = hk_min(2 * pause, SPINS_AT_ONCE)) {
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 && hk_try_lock(lock))
            return;
        for (size_t i = 0; i < pause; i++, spins++)
            sys_cpu_relax();
    }
    doubt_t doubt = {.since_ms = sys_now_ms()};
    /* Acquire: pairs with the release in hk_unlock. From here on the word says 2 while we may sleep or have slept. */
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
        consider(&doubt);
        sys_futex_wait(&lock->word, 2, DOUBT_MS);
    }
    if (HK_CHECK)
        witness_took(lock->rank);
}

HK_COLD bool hk_lock_within(hk_lock_t *lock, unsigned ms) {
    const uint64_t since = sys_now_ms();
    bool got = hk_try_lock(lock);
    while (!got && sys_now_ms() - since <= ms) {
        sys_futex_wait(&lock->word, atomic_load_explicit(&lock->word, memory_order_relaxed), 1);
        got = hk_try_lock(lock);
    }
    return got;
}

void hk_lock_by_call(hk_lock_t *lock) { hk_lock_here(lock); }
bool hk_try_lock_by_call(hk_lock_t *lock) { return hk_try_lock_here(lock); }
void hk_unlock_by_call(hk_lock_t *lock) { hk_unlock_here(lock); }

HK_COLD void hk_lock_wake(hk_lock_t *lock) { sys_futex_wake(&lock->word, 1); }
