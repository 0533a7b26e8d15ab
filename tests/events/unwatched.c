/* SPDX-License-Identifier: MIT
 *
 * Two threads with some blocks each. unwatched.py looks at the system calls of the process, at its descriptors and its
 * threads.
 *
 *   unwatched run      to the end
 *   unwatched stay     says `ready` when all is done and stays, with both threads, until its input ends
 */
#include "testing.h"

enum { BLOCKS = 100, SIZE = 100 };

static char line[] = "ready\n";
static bool stays;

static void some_blocks(void) {
    void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(SIZE), 1, SIZE);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void *other(void *unused) {
    some_blocks();
    if (stays) {
        CHECK(write(STDOUT_FILENO, line, sizeof line - 1) == sizeof line - 1);
        CHECK(read(STDIN_FILENO, line, 1) == 0);
    }
    return unused;
}

int main(int count, char **arguments) {
    test_alarm(60);
    stays = count == 2 && strcmp(arguments[1], "stay") == 0;
    some_blocks();
    test_join(test_thread(other, NULL));
    return TEST_PASS;
}
