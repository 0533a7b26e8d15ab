/* SPDX-License-Identifier: MIT
 *
 * The order of locks in the check build: each rule is broken once, on purpose, and the message names both locks. What
 * keeps the rules passes, also in threads of ours and in the child of a fork.
 */
#include "check.h"
#include "core/lock.h"
#include "sys/sys.h"

#include <pthread.h>

enum { SAID_MAX = 600 };

static hk_lock_t list = HK_LOCK_INIT(HK_RANK_HEAP_LIST), heap = HK_LOCK_INIT(HK_RANK_HEAP);
static hk_lock_t other = HK_LOCK_INIT(HK_RANK_HEAP), pool = HK_LOCK_INIT(HK_RANK_SUPERSLAB);
static hk_lock_t tried = HK_LOCK_INIT(HK_RANK_TRIED);

static void is_caught(void (*mistake)(void), const char *rule, const char *wanted, const char *held) {
    char text[SAID_MAX];
    int status = check_child(mistake, 2, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_HAS(text, rule);
    CHECK_HAS(text, wanted);
    CHECK_HAS(text, held);
}

static void inversion(void) {
    hk_lock(&pool);
    hk_lock(&heap);
}

/* Who holds a lock that it has only tried breaks the order with the next. */
static void inversion_after_try(void) {
    CHECK(hk_try_lock(&pool));
    hk_lock(&heap);
}

static void inversion_while_waiting(void) {
    hk_lock(&pool);
    hk_lock_wait(&heap);
}

static void twice(void) {
    hk_lock(&heap);
    hk_lock(&heap);
}

static void two_heaps(void) {
    hk_lock(&heap);
    hk_lock(&other);
}

static void list_twice(void) {
    hk_lock(&list);
    hk_lock(&list);
}

static void waits_for_tried(void) { hk_lock(&tried); }
static void gives_back_what_it_has_not(void) { hk_unlock(&heap); }

static void in_a_child(void) {
    hk_lock(&pool);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        hk_lock(&heap);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    raise(SIGABRT);
}

static void keeps_the_rules(void) {
    CHECK(hk_try_lock(&tried));
    hk_lock(&list);
    hk_lock(&heap);
    hk_lock(&other);
    hk_lock(&pool);
    hk_unlock(&other);
    hk_unlock(&list);
    hk_unlock(&heap);
    hk_unlock(&pool);
    hk_lock(&pool);
    CHECK(hk_try_lock(&heap)); /* free: nobody waits */
    hk_unlock(&heap);
    hk_unlock(&pool);
    hk_unlock(&tried);
}

static void *keeps_the_rules_beside(void *unused) {
    keeps_the_rules();
    return unused;
}

/* --- Threads of ours ---------------------------------------------------------------------------------------------- */

static _Atomic uint32_t done;
static sys_helper_t helper;

static void helper_keeps(void) {
    hk_lock(&heap); /* the thread that waits for this one holds a lock of a higher rank */
    hk_unlock(&heap);
    atomic_store(&done, 1);
}

static void helper_inverts(void) { inversion(); }

static bool starts(void (*run)(void)) { return sys_helper_start(run, &helper) == 0; }

static void inversion_of_a_helper(void) {
    CHECK(starts(helper_inverts));
    for (;;)
        pause();
}

static void threads_of_ours(void) {
    if (HK_TSAN)
        return; /* it knows no thread but its own */
    hk_lock(&pool);
    CHECK(starts(helper_keeps));
    CHECK(sys_helper_wait(&helper));
    CHECK_EQ(atomic_load(&done), 1);
    hk_unlock(&pool);
    if (!CHECK_INSTRUMENTED) /* what ends the process asks for thread-local storage there, and a helper has none */
        is_caught(inversion_of_a_helper, "LOCK-1", "a thread's heap", "the slot pool");
}

int main(void) {
    pthread_t thread;
    keeps_the_rules();
    hk_lock(&pool);
    CHECK(pthread_create(&thread, NULL, keeps_the_rules_beside, NULL) == 0);
    hk_unlock(&pool);
    CHECK(pthread_join(thread, NULL) == 0);
    is_caught(inversion, "LOCK-1", "waits for the lock of a thread's heap", "holds that of the slot pool");
    is_caught(inversion_after_try, "LOCK-1", "a thread's heap", "the slot pool");
    is_caught(inversion_while_waiting, "LOCK-1", "a thread's heap", "the slot pool");
    is_caught(in_a_child, "LOCK-1", "a thread's heap", "the slot pool");
    is_caught(twice, "LOCK-2", "a thread's heap", "signal handler that has interrupted malloc or free");
    is_caught(two_heaps, "LOCK-2", "a thread's heap", "a thread's heap");
    is_caught(list_twice, "LOCK-2", "the list of heaps", "the list of heaps");
    is_caught(waits_for_tried, "LOCK-3", "waits for a lock", "only tried");
    is_caught(gives_back_what_it_has_not, "LOCK-4", "gives back", "a thread's heap");
    threads_of_ours();
    return CHECK_PASS;
}
