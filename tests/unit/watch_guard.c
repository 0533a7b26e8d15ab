/* SPDX-License-Identifier: MIT
 *
 * A thread that finds an interval of guarded blocks finds the cells too (under ThreadSanitizer). One in which another
 * thread's turn to put the handler in front lasts for ever does without; in a child of a fork nobody's does.
 */
#include "check.h"
#include "core/options.h"
#include "watch/guard.h"

#include <pthread.h>
#include <signal.h>

enum { SIZE = 100 };

static void *asks(void *elsewhere) {
    while (guard_interval() == 0)
        sched_yield();
    CHECK(!guard_holds(elsewhere));
    return NULL;
}

static void of_the_program(int number) { _exit(number); }

static bool is_in_front_with_a_block(void) {
    struct sigaction now;
    CHECK(signal(SIGSEGV, of_the_program) != SIG_ERR);
    void *block = guard_alloc(SIZE, 16, NULL);
    CHECK(block != NULL && guard_holds(block));
    guard_free(block, NULL);
    CHECK(sigaction(SIGSEGV, NULL, &now) == 0);
    return now.sa_handler != of_the_program;
}

int main(void) {
    char main_stack[1] = {0};
    pthread_t thread;
    CHECK_EQ(hk_option_set("GUARD", "64K"), 0);
    CHECK(pthread_create(&thread, NULL, asks, main_stack) == 0);
    usleep(10000);
    guard_init();
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(guard_interval() != 0);
    CHECK(is_in_front_with_a_block());
    atomic_store(&hk_guard_installs, true);
    CHECK(!is_in_front_with_a_block());
    guard_after_fork();
    CHECK(is_in_front_with_a_block());
    return CHECK_PASS;
}
