/* SPDX-License-Identifier: MIT
 *
 * Huge pages are earned: a heap of 12 MiB has none; one that has grown to 512 MiB of small blocks has four fifths in
 * them at the least, took few page faults beside those of its first 16 MiB (4,096), and is not much larger than what is
 * live.
 */
#include "testing.h"

#include <sys/resource.h>

enum { SMALL_MIB = 12, LARGE_MIB = 512, FAULTS_MAX = 5500 };

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

static void grow_to(size_t *live, size_t bytes, uint64_t *random) {
    while (*live < bytes) {
        size_t size = 16 + test_random_below(random, 1009);
        memset(test_opaque(malloc(size)), 1, size);
        *live += size;
    }
}

int main(void) {
    test_require_hakmem();
    test_alarm(100);
    test_require_huge_pages();
    uint64_t random = 1;
    size_t live = 0;
    long refused_before = test_huge_refused(), base = test_rss_kib(), before = faults();
    grow_to(&live, SMALL_MIB * TEST_MIB, &random);
    CHECK_SAY(test_huge_kib() == 0, "%ld KiB in huge pages at %d MiB", test_huge_kib(), SMALL_MIB);
    grow_to(&live, LARGE_MIB * TEST_MIB, &random);
    long took = faults() - before, rss = test_rss_kib() - base;
    test_say("%ld faults, %ld KiB resident, %ld KiB in huge pages\n", took, rss, test_huge_kib());
    if (test_huge_refused() != refused_before)
        test_skip("the kernel had no huge page at hand");
    CHECK(test_huge_kib() >= rss / 5 * 4);
    CHECK(took <= FAULTS_MAX);
    CHECK(rss <= LARGE_MIB * 1024 / 20 * 21);
    return TEST_PASS;
}
