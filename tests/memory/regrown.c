/* SPDX-License-Identifier: MIT
 *
 * A buffer that grows by realloc, is filled and freed, again and again: the next one finds the pages of the last. So it
 * does where several grow in turns, and are in each other's way; and one that goes back and forth between a length of
 * slabs and one of runs stays where it is.
 */
#include "testing.h"

#include <sys/resource.h>

enum { KIB = 1024, TIMES = 12, SOME = 8 };

static long faults(void) {
    struct rusage usage;
    CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* Of all times but the first few, so many page faults for each 100 pages that are filled. */
static void grow(unsigned count, size_t size, size_t step, long most) {
    char *buffers[SOME];
    long before = 0;
    for (unsigned i = 0; i < TIMES; i++) {
        if (i == TIMES / 2)
            before = faults();
        for (unsigned k = 0; k < count; k++)
            buffers[k] = NULL;
        for (size_t now = 0; now < size; now += step)
            for (unsigned k = 0; k < count; k++) {
                buffers[k] = test_opaque(realloc(buffers[k], now + step));
                CHECK(buffers[k] != NULL && (now == 0 || buffers[k][now - 1] == (char)(now - 1 + k)));
                memset(buffers[k] + now, 1, step);
                buffers[k][now + step - 1] = (char)(now + step - 1 + k);
            }
        for (unsigned k = 0; k < count; k++)
            free(buffers[k]);
    }
    long pages = (long)(count * size / 4096) * (TIMES / 2), percent = (faults() - before) * 100 / pages;
    test_say("%u of %zu KiB by %zu KiB: %ld faults for 100 pages\n", count, size / KIB, step / KIB, percent);
    CHECK(percent <= most);
}

static void back_and_forth(void) {
    char *block = test_opaque(malloc(270000)), *first = block;
    for (unsigned i = 0; i < 100; i++) {
        CHECK((block = test_opaque(realloc(block, 250000))) == first);
        CHECK((block = test_opaque(realloc(block, 270000))) == first);
    }
    CHECK(test_opaque(realloc(block, 1000)) != first);
}

int main(void) {
    test_require_hakmem();
    test_alarm(100);
    grow(1, 3700 * KIB, 100 * KIB, 20);
    grow(1, 4300 * KIB, 100 * KIB, 20);
    grow(1, 16384 * KIB, 256 * KIB, 20);
    grow(SOME, 3000 * KIB, 100 * KIB, 50);
    back_and_forth();
    return TEST_PASS;
}
