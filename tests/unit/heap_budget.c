/* SPDX-License-Identifier: MIT
 *
 * A process is oversubscribed by the processors that it may use, not by those that there are. Nobody keeps an empty
 * slab then. What magazines may hold follows threads, processors and what is in use.
 */
#include "check.h"
#include "heap/budget.h"
#include "heap/magazine.h"
#include "slow/malloc.h"
#include "slow/realloc.h"
#include "start/start.h"
#include "sys/sys.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 12 }; /* too many for one processor, not for two */

static pthread_barrier_t started, seen;

static void *start(void *argument) {
    CHECK(heap_current() != NULL);
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&seen);
    return argument;
}

/* Slabs of a class of which everything is free again. */
static unsigned spares_left(unsigned cls) {
    heap_t *h = heap_current();
    void *block = magazine_alloc(h, cls);
    CHECK(block != NULL && h->class_stats[cls].slab_count == 1);
    CHECK(heap_realloc(block, 0, NULL) == NULL);
    magazine_drop_all(h);
    return h->class_stats[cls].slab_count;
}

static bool is_oversubscribed_with_threads(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&started, NULL, THREADS + 1);
    pthread_barrier_init(&seen, NULL, THREADS + 1);
    CHECK(!heap_is_oversubscribed());
    CHECK_EQ(spares_left(7), 1);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, start, NULL) == 0);
    pthread_barrier_wait(&started);
    bool oversubscribed = heap_is_oversubscribed();
    CHECK_EQ(spares_left(9), oversubscribed ? 0 : 1);
    pthread_barrier_wait(&seen);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(!heap_is_oversubscribed());
    return oversubscribed;
}

static void bound(void) {
    test_use_one_processor();
    CHECK(is_oversubscribed_with_threads());
}

static void unbound(void) {
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    if (CPU_COUNT(&set) > 1 && sys_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup") > 1)
        CHECK(!is_oversubscribed_with_threads());
}

/* All magazines together hold a bounded part of what is in use, however many threads there are. */
static void budgets(void) {
    enum { OWNED = 100 << 10 };
    CHECK_EQ(budget_bytes(OWNED, 0, 1, HEAP_ROOM), 4 << 20);
    CHECK_EQ(budget_bytes(OWNED, 0, 4, HEAP_ROOM), 4 << 20);
    CHECK_EQ(budget_bytes(OWNED, 0, 16, HEAP_ROOM), 1 << 20);
    CHECK_EQ(budget_bytes(OWNED, HK_GIB, 64, HEAP_ROOM), 2 << 20);
    CHECK_EQ(budget_bytes(OWNED, HK_GIB, 64, HEAP_OVERSUBSCRIBED), 64 << 10);
    CHECK_EQ(budget_bytes(OWNED, HK_GIB, 4096, HEAP_ROOM), 64 << 10);
    CHECK_EQ(budget_bytes(64 << 20, 0, 1, HEAP_ROOM), 16 << 20);
    CHECK_EQ(budget_bytes(64 << 20, 0, 64, HEAP_ROOM), 8 << 20);
    CHECK_EQ(budget_bytes(64 << 20, 0, 64, HEAP_HEAVILY), 2 << 20);
    CHECK_EQ(budget_passed_bytes(64), 768 << 10);
    CHECK_EQ(budget_passed_bytes(4096), 64 << 10);
}

int main(void) {
    budgets();
    CHECK_EQ(budget_threads_for(1), 8);
    CHECK_EQ(budget_threads_for(2), 16);
    CHECK_EQ(budget_threads_for(3), 24);
    CHECK_EQ(budget_threads_for(64), 512);
    CHECK(budget_threads_for(UINT64_MAX) >= HK_OWNER_LIMIT);
    char text[1024];
    int status = check_child(unbound, STDERR_FILENO, text, sizeof text);
    CHECK_STR(text, "");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = check_child(bound, STDERR_FILENO, text, sizeof text);
    CHECK_STR(text, "");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return CHECK_PASS;
}
