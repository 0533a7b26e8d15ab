/* SPDX-License-Identifier: MIT
 *
 * Four threads take turns under a small RLIMIT_DATA, each with 200 blocks of up to 2,000 bytes, and now and then one of
 * up to 600,000. At most 6,014 KiB are live at a time. With a slab of each size in each thread, the slabs are most of
 * what the limit leaves. The turns make the order of calls the same in each run; on several processors, without them,
 * how much is live at a time is a matter of luck.
 *
 *   turns KIB    a hundred starts, each with its slabs and records at other places; in sixty of them at least, nobody
 *                gets NULL. Of few starts too few pass by chance: where three of four pass, less than three of five in
 *                one run of ten
 */
#include "testing.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { THREADS = 4, BLOCKS = 200, STEPS = 20000, TURN = 16, BIG_SHARE = 97, SMALL_MAX = 2000, BIG_MAX = 600000 };
enum { STARTS = 100, STARTS_AT_LEAST = 60 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static unsigned turn;
static size_t live; /* of whose turn it is */

static void wait_for_turn(unsigned id) {
    pthread_mutex_lock(&lock);
    while (turn != id)
        pthread_cond_wait(&passed, &lock);
    pthread_mutex_unlock(&lock);
}

static void pass_turn(void) {
    pthread_mutex_lock(&lock);
    turn = (turn + 1) % THREADS;
    pthread_cond_broadcast(&passed);
    pthread_mutex_unlock(&lock);
}

static void *run(void *argument) {
    unsigned id = (unsigned)(uintptr_t)argument, random = id * 7919 + 1;
    char *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    wait_for_turn(id);
    for (unsigned step = 0; step < STEPS; step++) {
        if (step % TURN == TURN - 1) {
            pass_turn();
            wait_for_turn(id);
        }
        random = random * 1103515245 + 12345;
        unsigned at = (random >> 8) % BLOCKS;
        live -= sizes[at];
        free(blocks[at]);
        sizes[at] = 1 + ((random >> 16) % BIG_SHARE == 0 ? (random >> 4) % BIG_MAX : (random >> 5) % SMALL_MAX);
        blocks[at] = (char *)malloc(sizes[at]);
        CHECK_SAY(blocks[at] != NULL, "no %zu bytes at step %u, with %zu KiB live", sizes[at], step, live / 1024);
        live += sizes[at];
        blocks[at][0] = blocks[at][sizes[at] - 1] = 1;
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        live -= sizes[i];
        free(blocks[i]);
    }
    pass_turn();
    return NULL;
}

static bool passes(char **argv) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char under[] = "under";
        char *const again[] = {argv[0], argv[1], under, NULL};
        struct rlimit limit = {strtoull(argv[1], NULL, 10) * 1024, RLIM_INFINITY};
        if (setrlimit(RLIMIT_DATA, &limit) == 0)
            execv("/proc/self/exe", again);
        _exit(TEST_FAIL);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status == 0;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(100);
    CHECK(argc >= 2);
    if (argc == 2) {
        unsigned passed_count = 0;
        for (unsigned start = 0; start < STARTS; start++)
            passed_count += passes(argv);
        CHECK_SAY(passed_count >= STARTS_AT_LEAST, "%u of %u starts", passed_count, STARTS);
        return TEST_PASS;
    }
    pthread_t threads[THREADS];
    pthread_attr_t attributes; /* small stacks: they count too */
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 64 * TEST_KIB) == 0);
    for (size_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], &attributes, run, (void *)t) == 0);
    for (unsigned t = 0; t < THREADS; t++)
        test_join(threads[t]);
    CHECK(live == 0);
    CHECK_HEAP();
    return TEST_PASS;
}
