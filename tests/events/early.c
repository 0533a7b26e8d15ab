/* SPDX-License-Identifier: MIT
 *
 * Allocation before main: in a constructor of the program with the highest priority, in one of a preloaded library
 * (early_library.c), in a thread started there, and in a fork made there. What was made then is freed by main.
 */
#include "testing.h"

#include <sys/wait.h>

static void *blocks[300];

static void *early_thread(void *unused) {
    (void)unused;
    return malloc(2000);
}

__attribute__((constructor(101))) static void first(void) {
    for (unsigned i = 0; i < 300; i++) {
        size_t size = 1 + i * i * 17;
        blocks[i] = i % 3 == 0 ? calloc(1, size) : malloc(size);
        CHECK(blocks[i] != NULL);
        test_fill(blocks[i], size, i);
    }
    void *from_thread = NULL;
    CHECK(pthread_join(test_thread(early_thread, NULL), &from_thread) == 0);
    free(from_thread);
    pid_t pid = fork();
    if (pid == 0) {
        free(malloc(1000));
        free(blocks[5]);
        _exit(0);
    }
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    void **(*library_blocks)(unsigned *);
    TEST_SYMBOL(library_blocks, "early_library_blocks");
    if (library_blocks != NULL) {
        unsigned count = 0;
        void **theirs = library_blocks(&count);
        CHECK(count == 100);
        for (unsigned i = 0; i < count; i++) {
            CHECK(test_holds(theirs[i], 10 + i * 100, i));
            free(theirs[i]);
        }
    } else {
        CHECK(getenv("TEST_NO_EARLY_LIBRARY") != NULL);
    }
    for (unsigned i = 0; i < 300; i++) {
        CHECK(test_holds(blocks[i], 1 + i * i * 17, i));
        free(blocks[i]);
    }
    CHECK_HEAP();
    return TEST_PASS;
}
