/* SPDX-License-Identifier: MIT
 *
 * The lock: one holder at a time, waits are counted, a sleeper is woken, an uncontended lock makes no wait.
 */
#include "check.h"
#include "core/lock.h"
#include "sys/sys.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>

enum { THREADS = 3, TURNS = 20000 };

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_HEAP);
static unsigned long counter, inside; /* plain: the lock is all that keeps them whole */
static _Atomic uint32_t started, got_it;

static uint64_t waits(void) { return atomic_load(&hk_lock_wait_count); }

static void alone(void) {
    uint64_t before = waits();
    CHECK_EQ(atomic_load(&lock.word), 0);
    hk_lock(&lock);
    CHECK_EQ(atomic_load(&lock.word), 1);
    CHECK(!hk_try_lock(&lock));
    hk_unlock(&lock);
    CHECK(hk_try_lock(&lock));
    hk_unlock(&lock);
    CHECK_EQ(atomic_load(&lock.word), 0);
    CHECK_EQ(waits(), before);
    CHECK_EQ(lock.rank, HK_RANK_HEAP);
}

static void *count(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < TURNS; i++) {
        hk_lock(&lock);
        CHECK_EQ(++inside, 1);
        counter++;
        inside--;
        hk_unlock(&lock);
    }
    return NULL;
}

static void exclusion(void) {
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, count, NULL) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(counter, THREADS * TURNS);
    CHECK_EQ(atomic_load(&lock.word), 0);
}

static void *take(void *unused) {
    (void)unused;
    atomic_store(&started, 1);
    hk_lock(&lock);
    atomic_fetch_add(&got_it, 1);
    hk_unlock(&lock);
    return NULL;
}

/* Held for long enough that the others sleep: each counts one wait, and all come through. */
static void sleepers(void) {
    pthread_t threads[THREADS];
    uint64_t before = waits();
    hk_lock(&lock);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take, NULL) == 0);
    while (waits() < before + THREADS || atomic_load(&lock.word) != 2)
        usleep(1000);
    CHECK_EQ(atomic_load(&got_it), 0);
    hk_unlock(&lock);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(atomic_load(&got_it), THREADS);
    CHECK_EQ(waits(), before + THREADS);
    CHECK_EQ(atomic_load(&lock.word), 0);
}

/* For a thread that forks the locks are open, for others they are not. */
static void *finds_it_held(void *unused) {
    (void)unused;
    CHECK(!hk_try_lock(&lock));
    return NULL;
}

static void open_for_a_fork(void) {
    pthread_t thread;
    hk_lock(&lock);
    atomic_store(&hk_fork_owner, hk_thread_self());
    CHECK(hk_locks_are_open());
    CHECK(hk_try_lock(&lock));
    hk_lock(&lock);
    hk_unlock(&lock);
    CHECK_EQ(atomic_load(&lock.word), 1);
    CHECK(pthread_create(&thread, NULL, finds_it_held, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    atomic_store(&hk_fork_owner, NULL);
    CHECK(!hk_locks_are_open());
    CHECK(!hk_try_lock(&lock));
    hk_unlock(&lock);
    CHECK_EQ(atomic_load(&lock.word), 0);
}

static bool must_be_itself(void) { return true; }

static void waits_for_itself(void) {
    hk_lock_doubt = must_be_itself;
    hk_lock(&lock);
    hk_lock(&lock);
}

static _Atomic unsigned doubts;

static bool cannot_tell(void) { return atomic_fetch_add(&doubts, 1) == UINT_MAX; }

static void *lets_go_late(void *unused) {
    hk_lock(&lock);
    atomic_store(&started, 1);
    while (atomic_load(&doubts) == 0)
        (void)usleep(10000);
    hk_unlock(&lock);
    return unused;
}

/* A wait that nobody will end is one line and the end; any other goes on. */
static void doubt(void) {
    char text[400];
    int status = check_child(waits_for_itself, 2, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_HAS(text, "signal handler that has interrupted malloc or free");
    pthread_t thread;
    hk_lock_doubt = cannot_tell;
    CHECK(pthread_create(&thread, NULL, lets_go_late, NULL) == 0);
    while (atomic_load(&started) == 0)
        (void)usleep(1000);
    hk_lock(&lock);
    CHECK(pthread_join(thread, NULL) == 0);
    hk_unlock(&lock);
    hk_lock_doubt = NULL;
}

int main(void) {
    doubt();
    alone();
    open_for_a_fork();
    exclusion();
    sleepers();
    return CHECK_PASS;
}
