/* SPDX-License-Identifier: MIT
 *
 * At the hardened levels a block is looked at before it is handed out. A page that is new must not be mapped twice for
 * that: first to the kernel's page of zeros, and then, with the first write, to one of its own.
 */
#include "testing.h"

#include <string.h>
#include <sys/resource.h>

enum { BLOCKS = 20000, SIZE_MAX_EACH = 1000, SLACK_PERCENT = 25 };

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

int main(void) {
    test_require_hakmem();
#if !defined(__x86_64__)
    test_skip("on other processors than x86-64 what reads and writes reads first");
#endif
    static char *blocks[BLOCKS];
    uint64_t random = 42;
    const long kib = test_rss_kib(), before = faults();
    for (unsigned i = 0; i < BLOCKS; i++) {
        const size_t size = 1 + test_random_below(&random, SIZE_MAX_EACH);
        CHECK((blocks[i] = malloc(size)) != NULL);
        memset(blocks[i], 1, size);
    }
    const long now = faults() - before, pages = (test_rss_kib() - kib) / 4;
    CHECK_SAY(now <= pages * (100 + SLACK_PERCENT) / 100, "%ld page faults for %ld pages", now, pages);
    return 0;
}
