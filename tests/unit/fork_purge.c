/* SPDX-License-Identifier: MIT
 *
 * A fork while another thread gives slots back to the kernel: in the child they are the pool's again, and dirty; also
 * in one that was made without fork handlers. Slots whose purge is over are whoever's they are.
 */
#include "front/front.h"
#include "heap_places.h"
#include "sys/sys.h"
#include "superslab/superslab.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

enum { SLOTS_AT_ONCE = 24, RUNS = 40, FORKS = 60, LEFT = 100 };

static _Atomic bool stop;
static heap_t *main_heap;
static unsigned forks_in_a_purge;

static void *purges(void *unused) {
    static slot_t runs[RUNS];
    while (!atomic_load(&stop)) {
        for (unsigned i = 0; i < RUNS; i++) {
            slots_t got = slots_alloc(SLOTS_AT_ONCE, 1, SLOTS_SPARSE);
            CHECK(got.first != 0);
            runs[i] = got.first;
            for (unsigned k = 0; k < SLOTS_AT_ONCE; k++)
                *map_slot_address(got.first + k) = 1;
        }
        for (unsigned i = 0; i < RUNS; i++)
            slots_free(runs[i], SLOTS_AT_ONCE, true);
        (void)superslab_purge(SIZE_MAX);
    }
    return unused;
}

/* What is said to read as zeros does. */
static void zeros_are(void) {
    for (unsigned i = 0; i < RUNS; i++) {
        slots_t got = slots_alloc(SLOTS_AT_ONCE, 1, SLOTS_SPARSE);
        CHECK(got.first != 0);
        for (unsigned k = 0; k < SLOTS_AT_ONCE && got.zeroed; k++)
            CHECK_EQ(*map_slot_address(got.first + k), 0);
    }
}

static void look(bool attended) {
    if (!attended)
        CHECK(heap_current() == main_heap);
    CHECK_EQ(pool_count(&hk_pool.purging), 0);
    for (size_t i = region_next_used(1); i != 0; i = region_next_used(i + 1))
        if (pool_knows(i))
            CHECK_EQ(pool_record(i)->purging_mask, 0);
    CHECK_EQ(superslab_check(), 0);
    zeros_are();
    CHECK_EQ(superslab_check(), 0);
}

static pid_t raw_fork(void) { return (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, 0UL, 0UL, 0UL, 0UL); }

static void one_fork(bool attended) {
    bool purging = pool_count(&hk_pool.purging) != 0;
    pid_t child = attended ? fork() : raw_fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* One that inherits a held lock is stranded, and leaves the pool alone. */
        if (attended || heap_current() != NULL)
            look(attended);
        _exit(CHECK_PASS);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    forks_in_a_purge += purging;
}

static void while_it_purges(bool attended) {
    pthread_t thread;
    forks_in_a_purge = 0;
    atomic_store(&stop, false);
    CHECK(pthread_create(&thread, NULL, purges, NULL) == 0);
    for (unsigned tries = 0; forks_in_a_purge < FORKS / 4 || tries < FORKS; tries++) {
        CHECK_SAY(tries < FORKS * LEFT, "%u forks in a purge", forks_in_a_purge);
        for (unsigned wait = 0; wait < 1000 && pool_count(&hk_pool.purging) == 0; wait++)
            usleep(20);
        one_fork(attended);
    }
    atomic_store(&stop, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
    if (HK_TSAN)
        return check_skip("ThreadSanitizer lets no other thread's locks be as they are in the child of a fork");
    main_heap = start_heap();
    sys_process_mark_wipe();
    while_it_purges(true);
    while_it_purges(false);
    return CHECK_PASS;
}
