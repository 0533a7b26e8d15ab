/* SPDX-License-Identifier: MIT
 *
 * Valgrind ends a program that makes a thread it does not know: under it, memory is given back without the helper
 * thread, by who frees. The test runs under one of Valgrind's tools that leave malloc alone.
 */
#include "testing.h"

#include <dirent.h>

enum { BLOCKS = 4096, BLOCK_SIZE = 4096, ROUNDS = 3, REST_US = 700000 };

static void burst(void) {
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_SIZE);
        test_fill(blocks[i], BLOCK_SIZE, i);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static unsigned thread_count(void) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *e; (e = readdir(tasks)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(tasks);
    return count;
}

int main(void) {
    test_require_hakmem();
    test_alarm(120);
    for (int round = 0; round < ROUNDS; round++) {
        burst();
        CHECK_SAY(thread_count() == 1, "%u threads", thread_count());
        test_sleep_us(REST_US); /* longer than freed memory rests */
    }
    CHECK_HEAP();
    return TEST_PASS;
}
