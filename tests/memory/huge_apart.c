/* SPDX-License-Identifier: MIT
 *
 * Of a huge page of which a part goes back, the kernel has that part: it was taken apart. Otherwise all of it stays
 * charged to the process's control group. The kernel counts such pages for the whole machine.
 */
#include "testing.h"

enum { SIZE = 1024, MIB = 256, COUNT = MIB * 1024, STRETCH = 64, KEPT = 16, HUGE_KIB = 2048 };

static char *blocks[COUNT];

static long taken_apart(void) { return test_figure_of("/proc/vmstat", "thp_split_page "); }

int main(void) {
    test_require_hakmem();
    test_alarm(100);
    test_require_huge_pages();
    for (unsigned i = 0; i < COUNT; i++)
        CHECK((blocks[i] = test_opaque(malloc(SIZE))) != NULL && memset(blocks[i], 1, SIZE) != NULL);
    const long huge = test_huge_kib() / HUGE_KIB, before = taken_apart();
    if (huge < MIB / 4 || before < 0)
        test_skip("the kernel had no huge pages at hand");
    for (unsigned i = 0; i < COUNT; i++)
        if (i % STRETCH >= KEPT)
            free(blocks[i]);
    malloc_trim(0);
    const long apart = taken_apart() - before;
    test_say("%ld huge pages, %ld taken apart, %ld KiB resident\n", huge, apart, test_rss_kib());
    CHECK(apart >= huge / 4 * 3);
    CHECK(test_rss_kib() <= MIB * 1024 / 2);
    for (unsigned i = 0; i < COUNT; i++)
        if (i % STRETCH < KEPT)
            CHECK(blocks[i][0] == 1 && blocks[i][SIZE - 1] == 1);
    return TEST_PASS;
}
