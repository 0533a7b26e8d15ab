/* SPDX-License-Identifier: MIT
 *
 * HAKMEM_PREFAULT and HAKMEM_WARMUP: which pages are there before the program touches them.
 *
 *   supply off        of the slot that a new block of 64 bytes lies in, only the pages that are used are resident
 *   supply ahead      the whole slot is
 *   supply warm MIB   MIB were resident at start, and small blocks of half of that make no more resident
 *   supply old MIB    likewise on a kernel that makes nothing resident when it is asked to
 */
#include "testing.h"

#include "old_kernel.h"

#include <sys/mman.h>

enum { SLOT = 65536, PAGE = 4096 };

static unsigned resident_pages(void *block) {
    unsigned char pages[SLOT / PAGE];
    CHECK(mincore((void *)((uintptr_t)block & ~(uintptr_t)(SLOT - 1)), SLOT, pages) == 0);
    unsigned count = 0;
    for (unsigned i = 0; i < SLOT / PAGE; i++)
        count += pages[i] & 1;
    return count;
}

static void expect_slot(bool ahead) {
    /* A class that nothing else has used, so that its slab is new. */
    unsigned found = resident_pages(test_opaque(malloc(64 * 11 + 8)));
    test_say("%u of %u pages resident\n", found, SLOT / PAGE);
    CHECK(ahead ? found == SLOT / PAGE : found <= 2);
}

static void expect_warm(size_t mib) {
    long before = test_rss_kib();
    CHECK_SAY(before >= (long)(mib * 1024), "%ld KiB resident at start", before);
    for (size_t bytes = 0; bytes < mib * TEST_MIB / 2; bytes += 256)
        memset(test_opaque(malloc(256)), 1, 256);
    long after = test_rss_kib();
    test_say("resident %ld KiB at start, %ld KiB after %zu MiB of blocks\n", before, after, mib / 2);
    CHECK(after < before + 4096);
}

static int warm_old(char **argv) {
    if (!become_old(MADV_POPULATE_WRITE))
        test_skip("no filters here");
    execl("/proc/self/exe", argv[0], "warm", argv[2], (char *)NULL);
    return TEST_FAIL;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    if (argc == 2 && strcmp(argv[1], "off") == 0)
        expect_slot(false);
    else if (argc == 2 && strcmp(argv[1], "ahead") == 0)
        expect_slot(true);
    else if (argc == 3 && strcmp(argv[1], "warm") == 0)
        expect_warm((size_t)atol(argv[2]));
    else
        return argc == 3 && strcmp(argv[1], "old") == 0 ? warm_old(argv) : TEST_FAIL;
    return TEST_PASS;
}
