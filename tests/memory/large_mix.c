/* SPDX-License-Identifier: MIT
 *
 * Buffers of mixed sizes, each replaced by another at random: what is resident stays near what is live, because what
 * was freed serves whatever size comes next, and goes back where it serves none.
 *
 *   large_mix [LOW_KIB HIGH_KIB]
 */
#include "testing.h"

#include <malloc.h>

enum { BUFFERS = 100, TURNS = 6000, PAGE = 4096 };

/* In hundredths. A quarter may lie ready, and holes between buffers take as much again. */
enum { RATIO_MAX = 165 };

/* Every doubling of the size is as likely as another. */
static size_t some_size(uint64_t *random, size_t low, size_t high) {
    size_t least = low;
    for (size_t more = test_random_below(random, 64); more > 0 && least < high; more--)
        least = least * 2 < high ? least * 2 : low;
    return least + test_random_below(random, least);
}

int main(int argc, char **argv) {
    size_t low = (argc > 2 ? strtoul(argv[1], NULL, 10) : 16) * TEST_KIB;
    size_t high = (argc > 2 ? strtoul(argv[2], NULL, 10) : 8192) * TEST_KIB;
    static char *buffers[BUFFERS];
    uint64_t random = 42;
    size_t live = 0, live_most = 0;
    long base = test_rss_kib(), resident_most = 0;
    test_alarm(120);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        char **at = &buffers[test_random_below(&random, BUFFERS)];
        live -= malloc_usable_size(*at);
        free(*at);
        size_t size = some_size(&random, low, high);
        *at = (char *)malloc(size);
        CHECK(*at != NULL);
        for (size_t i = 0; i < size; i += PAGE)
            (*at)[i] = 1;
        live += malloc_usable_size(*at);
        live_most = live > live_most ? live : live_most;
        long resident = turn % 16 == 0 ? test_rss_kib() - base : 0;
        resident_most = resident > resident_most ? resident : resident_most;
    }
    size_t ratio = (size_t)resident_most * TEST_KIB * 100 / live_most;
    test_say("%zu MiB live at most, %ld MiB resident: %zu %%\n", live_most / TEST_MIB, resident_most / 1024, ratio);
    CHECK_SAY(ratio <= RATIO_MAX, "resident is %zu %% of what is live, at most %d %% expected", ratio, RATIO_MAX);
    return TEST_PASS;
}
