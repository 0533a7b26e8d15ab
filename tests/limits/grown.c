/* SPDX-License-Identifier: MIT
 *
 *   grown FROM_MIB TO_MIB    realloc of a long block that has no room behind it, or some: its pages move, so that
 *                            memory is not there twice, and those that nobody touched are not made
 */
#include "testing.h"

#include <sys/resource.h>

#define STEP (8 * TEST_MIB) /* from one page that is touched to the next */

/* Long blocks that the counts have as live. */
static uint64_t live_count(void) {
    static const char *names[] = {"large_allocs", "large_frees", "huge_allocs", "huge_frees"};
    uint64_t value[4];
    for (unsigned i = 0; i < 4; i++)
        CHECK(hak_stat_read(names[i], &value[i]) == 0);
    return value[0] - value[1] + value[2] - value[3];
}

static long peak_kib(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

static void fill(char *block, size_t from, size_t to) {
    for (size_t at = (from + STEP - 1) / STEP * STEP; at < to; at += STEP)
        block[at] = (char)(at / STEP + 1);
}

static void check(const char *block, size_t to) {
    for (size_t at = 0; at < to; at += STEP)
        CHECK(block[at] == (char)(at / STEP + 1) && block[at + 1] == 0);
}

int main(int argc, char **argv) {
    test_alarm(60);
    CHECK(argc == 3);
    test_require_hakmem();
    const size_t from = strtoul(argv[1], NULL, 10) * TEST_MIB - 1, to = strtoul(argv[2], NULL, 10) * TEST_MIB;
    const uint64_t count = live_count();
    for (unsigned round = 0; round < 3; round++) {
        char *block = (char *)malloc(from), *behind = round > 0 ? (char *)malloc(300 * TEST_KIB) : NULL;
        CHECK(block != NULL && (behind != NULL || round == 0));
        fill(block, 0, from);
        const long before = peak_kib();
        char *grown = (char *)realloc(block, to);
        CHECK(grown != NULL && malloc_usable_size(grown) >= to);
        CHECK_SAY(peak_kib() < before + 8 * 1024, "%ld KiB, then %ld", before, peak_kib());
        check(grown, from);
        fill(grown, from, to);
        char *shrunk = (char *)realloc(grown, from);
        CHECK(shrunk != NULL);
        check(shrunk, from);
        CHECK_HEAP();
        free(shrunk);
        free(behind);
        CHECK(live_count() == count);
        CHECK_HEAP();
    }
    return TEST_PASS;
}
