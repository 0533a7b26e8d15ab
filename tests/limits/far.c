/* SPDX-License-Identifier: MIT
 *
 *   far [MIB]    blocks of 512 MiB, of which nobody touches more than both ends, until 400 GiB are in use, or RLIMIT_AS
 *                of so much, which is in force from the start: the region's own state takes more than its first step
 */
#include "testing.h"

#include <sys/resource.h>

#define BLOCK (512 * TEST_MIB)
enum { BLOCKS_MAX = 800 };

static char *block[BLOCKS_MAX];

static size_t take(void) {
    size_t count = 0;
    for (; count < BLOCKS_MAX && (block[count] = (char *)malloc(BLOCK)) != NULL; count++)
        block[count][0] = block[count][BLOCK - 1] = (char)(count + 1);
    return count;
}

static void give(size_t count) {
    while (count-- > 0) {
        CHECK(block[count][0] == (char)(count + 1) && block[count][BLOCK - 1] == (char)(count + 1));
        free(block[count]);
    }
}

static int limited(char **argv) {
    struct rlimit limit = {strtoul(argv[1], NULL, 10) * TEST_MIB, strtoul(argv[1], NULL, 10) * TEST_MIB};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    execl("/proc/self/exe", argv[0], argv[1], "limited", (char *)NULL);
    return TEST_FAIL;
}

int main(int argc, char **argv) {
    test_alarm(60);
    if (argc == 2)
        return limited(argv);
    test_require_hakmem();
    const size_t most = argc > 1 ? strtoul(argv[1], NULL, 10) * TEST_MIB : BLOCKS_MAX * BLOCK;
    for (unsigned round = 0; round < 2; round++) {
        const size_t count = take();
        if (argc == 1 && count < BLOCKS_MAX)
            test_skip("no addresses for so much");
        CHECK_SAY(count >= most / BLOCK * 9 / 10, "%zu blocks of %zu", count, most / BLOCK);
        CHECK_HEAP();
        give(count);
    }
    CHECK_HEAP();
    return TEST_PASS;
}
