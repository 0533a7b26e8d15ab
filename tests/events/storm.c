/* SPDX-License-Identifier: MIT
 *
 * All that may come to a process, at once: eight threads allocate, free each other's blocks, jump out of functions and
 * fork, together a thousand times a second as far as the machine can; threads begin and end by thousands, leave blocks
 * to others, are cancelled, and allocate in destructors; signals come ten thousand times a second; a library is loaded
 * and unloaded. Every block keeps its contents, in the children too, the heap is whole at each rest, and little is
 * resident beside what is live. A long storm shows no drift of that.
 *
 *   storm [SECONDS [RESTS]]     so many seconds before each of so many rests
 */
#include "busy.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <sys/wait.h>

enum {
    WORKERS = 8,
    KEPT = 32768,
    KEPT_BYTES_MAX = 16384,
    FORK_EACH_NS = WORKERS * 1000000, /* of one worker */
    BRIEF = 8,
    BRIEF_BLOCKS = 40,
    SIGNAL_EACH_US = 100,
    SETTLE_MS = 1500,
    RESTS_MAX = 1000,
    RESTS_MANY = 120, /* so many show a drift of one part in a hundred: a rest is off by two */
};

static const double RATIO_MAX = 1.8; /* glibc's malloc has 1.9, jemalloc 1.5 */
static _Atomic(busy_block_t *) kept[KEPT];
static _Atomic unsigned long forks, signals, briefs, loads;
static pthread_t workers[WORKERS];
static pthread_key_t key;

static bool is_over(void) { return atomic_load_explicit(&busy_stop, memory_order_relaxed); }

static void keep_another(uint64_t *random) {
    busy_block_t *mine = busy_make(random, KEPT_BYTES_MAX);
    busy_drop(atomic_exchange(&kept[test_random_below(random, KEPT)], mine));
}

static void fork_one(uint64_t *random) {
    int status = 1;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        test_alarm(60);
        for (unsigned i = 0; i < 50; i++)
            keep_another(random);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK_SAY(status == 0, "a child ended with status %#x", (unsigned)status);
    atomic_fetch_add(&forks, 1);
}

static void jump_out(uint64_t *random, jmp_buf *back) {
    keep_another(random);
    longjmp(*back, 1);
}

static void jump(uint64_t *random) {
    jmp_buf back;
    if (setjmp(back) == 0)
        jump_out(random, &back);
}

static void *work(void *seed) {
    uint64_t random = (uintptr_t)seed;
    uint64_t next_fork = test_now_ns() + test_random_below(&random, FORK_EACH_NS);
    while (!is_over()) {
        busy_trade(&random, random % 200 == 0 ? 300000 : 2000);
        keep_another(&random);
        if (random % 16 == 0)
            jump(&random);
        if (test_now_ns() >= next_fork) {
            fork_one(&random);
            next_fork = test_now_ns() + FORK_EACH_NS;
        }
    }
    return NULL;
}

/* --- Threads that begin and end ----------------------------------------------------------------------------------- */

static void destroy(void *block) {
    uint64_t random = (uintptr_t)block;
    busy_drop((busy_block_t *)block);
    keep_another(&random);
}

static void *live_briefly(void *seed) {
    uint64_t random = (uintptr_t)seed;
    CHECK(pthread_setspecific(key, busy_make(&random, 1000)) == 0);
    for (unsigned i = 0; i < BRIEF_BLOCKS; i++)
        busy_trade(&random, 3000);
    return NULL;
}

static void *live_until_cancelled(void *seed) {
    uint64_t random = (uintptr_t)seed;
    CHECK(pthread_setspecific(key, busy_make(&random, 1000)) == 0);
    for (;;) {
        busy_trade(&random, 3000);
        pthread_testcancel();
    }
    return NULL;
}

static void *begin_and_end(void *seed) {
    uint64_t random = (uintptr_t)seed;
    while (!is_over()) {
        pthread_t threads[BRIEF];
        for (unsigned i = 0; i < BRIEF; i++)
            threads[i] = test_thread(i == 0 ? live_until_cancelled : live_briefly,
                                     (void *)(uintptr_t)(test_random(&random) | 1));
        CHECK(pthread_cancel(threads[0]) == 0);
        for (unsigned i = 0; i < BRIEF; i++)
            test_join(threads[i]);
        atomic_fetch_add(&briefs, BRIEF);
    }
    return NULL;
}

/* --- Signals and libraries ---------------------------------------------------------------------------------------- */

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void *send_signals(void *unused) {
    for (unsigned i = 0; !is_over(); i++) {
        CHECK(pthread_kill(workers[i % WORKERS], SIGUSR1) == 0);
        test_sleep_us(SIGNAL_EACH_US);
    }
    return unused;
}

static void *load_and_unload(void *unused) {
    while (!is_over()) {
        void *handle = dlopen("libresolv.so.2", RTLD_NOW);
        CHECK_SAY(handle != NULL, "%s", dlerror());
        CHECK(dlclose(handle) == 0);
        atomic_fetch_add(&loads, 1);
    }
    return unused;
}

/* --- The storm and its rests -------------------------------------------------------------------------------------- */

static void storm(uint64_t *random, unsigned seconds) {
    pthread_t others[3];
    atomic_store(&busy_stop, false);
    for (unsigned i = 0; i < WORKERS; i++)
        workers[i] = test_thread(work, (void *)(uintptr_t)test_random(random));
    others[0] = test_thread(send_signals, NULL);
    others[1] = test_thread(load_and_unload, NULL);
    others[2] = test_thread(begin_and_end, (void *)(uintptr_t)test_random(random));
    for (unsigned i = 0; i < seconds; i++)
        test_sleep_us(1000000);
    atomic_store(&busy_stop, true);
    for (unsigned i = 0; i < 3; i++)
        test_join(others[i]);
    for (unsigned i = 0; i < WORKERS; i++)
        test_join(workers[i]);
}

/* Resident bytes for each live one. */
static double rest(void) {
    size_t live = 0;
    busy_clear();
    for (unsigned i = 0; i < KEPT; i++)
        live += kept[i]->size;
    test_sleep_us(SETTLE_MS * 1000);
    CHECK_HEAP();
    long kib = test_anonymous_kib();
    double ratio = (double)kib * 1024 / (double)live;
    test_say("%ld KiB for %zu, %.4f; %lu forks, %lu threads, %lu signals, %lu loads\n", kib, live / 1024, ratio,
             atomic_exchange(&forks, 0), atomic_exchange(&briefs, 0), atomic_exchange(&signals, 0),
             atomic_exchange(&loads, 0));
    CHECK(ratio < RATIO_MAX);
    return ratio;
}

/* The last third beside the middle one: the first is on its way to where the others stay. */
static double drift(const double *ratios, unsigned rests) {
    unsigned third = rests / 3;
    double before = 0, after = 0;
    for (unsigned i = 0; i < third; i++) {
        before += ratios[rests - 2 * third + i];
        after += ratios[rests - third + i];
    }
    return after / before - 1;
}

int main(int argc, char **argv) {
    static double ratios[RESTS_MAX];
    test_require_hakmem();
    unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 2, rests = argc > 2 ? (unsigned)atoi(argv[2]) : 3;
    CHECK(rests >= 3 && rests <= RESTS_MAX);
    test_alarm(rests * (10 * seconds + 30) + 60);
    uint64_t random = test_now_ns();
    test_say("seed %llu\n", (unsigned long long)random);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_key_create(&key, destroy) == 0);
    for (unsigned i = 0; i < KEPT; i++)
        kept[i] = busy_make(&random, KEPT_BYTES_MAX);
    for (unsigned i = 0; i < rests; i++) {
        storm(&random, seconds);
        ratios[i] = rest();
    }
    test_say("drift %.4f\n", drift(ratios, rests));
    CHECK(rests < RESTS_MANY || drift(ratios, rests) < 0.01);
    return TEST_PASS;
}
