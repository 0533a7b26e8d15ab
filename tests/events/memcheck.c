/* SPDX-License-Identifier: MIT
 *
 * A program without a mistake under Valgrind's memcheck, which puts its own functions in place of the allocator's:
 * whatever hands out a block and whatever takes one must be replaced alike. The test runs under it, with no error and
 * nothing leaked.
 */
#include "testing.h"

int main(void) {
    test_alarm(120);
    free(malloc(10));
    free(calloc(3, 10));
    free(realloc(malloc(10), 100));
    free(realloc(NULL, 10));
    free(reallocarray(NULL, 3, 10));
    free(reallocarray(malloc(10), 30, 10));
    free(aligned_alloc(64, 128));
    free(memalign(64, 100));
    void *block = NULL;
    CHECK(posix_memalign(&block, 4096, 10) == 0);
    CHECK(malloc_usable_size(block) >= 10);
    free(block);
    free(strdup("text"));
    char *line = NULL;
    CHECK(asprintf(&line, "%d", 42) == 2);
    free(line);
    return TEST_PASS;
}
