/* SPDX-License-Identifier: MIT
 *
 * Signals arrive in the middle of malloc and free: a profiling timer and a thread that sends signals to all others as
 * fast as it can. The handlers do not allocate; blocks keep their contents, and errno survives.
 */
#include "busy.h"

#include <sys/time.h>

enum { THREADS = 3, SECONDS = 3, ENOUGH = 1000 };

static _Atomic unsigned long arrived;

static void handler(int signal_number, siginfo_t *info, void *context) {
    int saved = errno;
    (void)signal_number;
    (void)info;
    (void)context;
    atomic_fetch_add_explicit(&arrived, 1, memory_order_relaxed);
    errno = saved;
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_PROF, &often, NULL);

    pthread_t threads[THREADS];
    busy_start(threads, THREADS);
    uint64_t end = test_now_ns() + SECONDS * UINT64_C(1000000000);
    while (test_now_ns() < end || atomic_load(&arrived) <= ENOUGH) {
        for (unsigned t = 0; t < THREADS; t++)
            pthread_kill(threads[t], SIGUSR1);
        test_sleep_us(20);
    }
    busy_end(threads, THREADS);
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &never, NULL);
    test_say("%lu signals\n", atomic_load(&arrived));
    CHECK_HEAP();
    return TEST_PASS;
}
