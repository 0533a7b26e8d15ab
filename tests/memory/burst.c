/* SPDX-License-Identifier: MIT
 *
 * Bursts that are not much larger than what magazines may hold: 30 to 60 MiB of small blocks of all sizes, freed at
 * random by a thread that then sleeps. At most 15 % of the peak is left after three seconds, the rest of the process
 * not counted.
 */
#include "testing.h"

#include <sys/wait.h>

enum { BLOCKS_MAX = 200000, LEFT_PERCENT = 15, WAIT_MS = 3000 };

static void *blocks[BLOCKS_MAX];

static void shuffle(uint64_t *random, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t other = test_random_below(random, i);
        void *block = blocks[i - 1];
        blocks[i - 1] = blocks[other];
        blocks[other] = block;
    }
}

static void burst(size_t mib) {
    uint64_t random = mib;
    memset(blocks, 1, sizeof blocks); /* resident from now on */
    long base = test_rss_kib();
    size_t count = 0;
    for (size_t bytes = 0; bytes < mib * TEST_MIB; count++) {
        size_t size = 16 + test_random_below(&random, 985);
        CHECK(count < BLOCKS_MAX && (blocks[count] = malloc(size)) != NULL);
        memset(blocks[count], 1, size);
        bytes += size;
    }
    shuffle(&random, count);
    long peak = test_rss_kib() - base, left = peak;
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    for (test_wait_t wait = test_wait_for(WAIT_MS); left * 100 > peak * LEFT_PERCENT && test_wait_more(&wait);)
        left = test_rss_kib() - base;
    CHECK_SAY(left * 100 <= peak * LEFT_PERCENT, "of %zu MiB %ld KiB are left", mib, left);
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    static const size_t sizes[] = {30, 40, 50, 60};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            burst(sizes[i]);
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return TEST_PASS;
}
