/* SPDX-License-Identifier: MIT
 *
 * pthread_atfork handlers that allocate a lot, registered in the first constructor of the program and in main: each
 * must get its memory, in parent and child.
 */
#include "testing.h"

#include <sys/wait.h>

enum { BLOCKS = 600 };

static void *early_blocks[BLOCKS], *late_blocks[BLOCKS];

static size_t size_of(unsigned i) { return i % 100 == 99 ? 300000 + i * 1000 : 16 + (size_t)i * 97 % 40000; }

static void take(void **blocks) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size_of(i));
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, size_of(i) < 64 ? size_of(i) : 64);
    }
}

static void give_back(void **blocks) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        void *p = realloc(blocks[i], 100);
        CHECK(p != NULL);
        free(p);
    }
}

static void early_prepare(void) { take(early_blocks); }
static void early_release(void) { give_back(early_blocks); }
static void late_prepare(void) { take(late_blocks); }
static void late_release(void) { give_back(late_blocks); }

__attribute__((constructor(101))) static void early(void) {
    pthread_atfork(early_prepare, early_release, early_release);
}

int main(void) {
    test_require_hakmem();
    test_alarm(20);
    pthread_atfork(late_prepare, late_release, late_release);
    for (unsigned i = 0; i < 10; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            test_alarm(10);
            free(malloc(5000));
            exit(0);
        }
        int status = 1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    CHECK_HEAP();
    return TEST_PASS;
}
