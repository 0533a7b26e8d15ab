/* SPDX-License-Identifier: MIT
 *
 * Blocks of a few MiB, each filled before the next is asked for, up to a hard limit: huge pages bring along what lies
 * behind a block, and the next one begins there. So little more is resident than was asked for, and the limit is not
 * passed.
 */
#include "testing.h"

#include <sys/wait.h>

enum { LIMIT_MIB = 256, SHARE = 32, WASTE_SHARE = 9 };

static size_t filled(size_t size, size_t asked, size_t until) {
    for (char *block; asked < until && (block = test_opaque(malloc(size))) != NULL; asked += size)
        memset(block, 1, size);
    return asked;
}

static void fill(size_t size) {
    const long limit_kib = LIMIT_MIB * 1024;
    size_t asked = filled(size, 0, LIMIT_MIB * TEST_MIB / 4 * 3);
    const long far_kib = test_status_kib("RssAnon:"), most_kib = (long)(asked / 1024 + asked / 1024 / WASTE_SHARE);
    CHECK_SAY(far_kib <= most_kib, "%zu bytes each: %ld KiB resident of %zu", size, far_kib, asked / 1024);
    asked = filled(size, asked, SIZE_MAX);
    const long resident = test_status_kib("RssAnon:"), kib = (long)(asked / 1024);
    test_say("%zu bytes each: refused at %ld KiB, %ld KiB resident\n", size, kib, resident);
    CHECK_SAY(resident <= limit_kib + limit_kib / SHARE, "%ld KiB resident", resident);
    CHECK_SAY(kib + (long)(size / 1024) >= limit_kib - 2 * limit_kib / SHARE, "refused at %ld KiB", kib);
}

int main(void) {
    static const size_t sizes[] = {2200000, 4250000, 4300000, 5000000, 6320000, 8400000, 10500000, 30000000};
    test_require_hakmem();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            fill(sizes[i]);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return TEST_PASS;
}
