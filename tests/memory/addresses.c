/* SPDX-License-Identifier: MIT
 *
 * What is free after a trim does not count against the address space, nor as memory that the process may need (VmData;
 * with strict overcommit all processes share in that), and serves again.
 */
#include "testing.h"

enum {
    LARGE = 200, /* of 1 MiB */
    SMALL = 40000,
    KEPT_KIB = 24 * 1024, /* records, and a few superslabs that hold what the process has besides; of 280 MiB */
};

static char *large[LARGE], *small[SMALL];

/* No page is touched but for the records. */
static void take(void) {
    for (unsigned i = 0; i < LARGE; i++)
        CHECK((large[i] = (char *)malloc(TEST_MIB)) != NULL);
    for (unsigned i = 0; i < SMALL; i++)
        CHECK((small[i] = (char *)malloc(2000)) != NULL);
}

static void give(void) {
    for (unsigned i = 0; i < LARGE; i++)
        free(large[i]);
    for (unsigned i = 0; i < SMALL; i++)
        free(small[i]);
}

int main(void) {
    test_require_hakmem();
    test_alarm(30);
    long before = test_status_kib("VmData:");
    for (unsigned round = 0; round < 3; round++) {
        take();
        CHECK(test_status_kib("VmData:") >= before + LARGE * 1024);
        give();
        /* Slots that are on their way to the kernel stay mapped: the helper has them for a moment. */
        for (test_wait_t wait = test_wait_for(3000);
             malloc_trim(0), test_status_kib("VmData:") > before + KEPT_KIB && test_wait_more(&wait);)
            ;
        long after = test_status_kib("VmData:");
        CHECK_SAY(after <= before + KEPT_KIB, "VmData %ld KiB, %ld before", after, before);
    }
    CHECK_HEAP();
    return TEST_PASS;
}
