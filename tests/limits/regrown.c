/* SPDX-License-Identifier: MIT
 *
 * A buffer that grows below a limit, to more than half of it: a copy of it would not fit, and none is made. Nothing is
 * said to have been refused by that, and no limit to be near.
 */
#include "testing.h"

enum { STEPS = 60 };

int main(void) {
    test_require_hakmem();
    char *buffer = NULL;
    for (size_t i = 0; i < STEPS; i++) {
        CHECK((buffer = test_opaque(realloc(buffer, (i + 1) * TEST_MIB))) != NULL);
        memset(buffer + i * TEST_MIB, (int)i, TEST_MIB);
    }
    for (size_t i = 0; i < STEPS; i++)
        CHECK(buffer[i * TEST_MIB] == (char)i && buffer[(i + 1) * TEST_MIB - 1] == (char)i);
    static hak_stats_t stats = {.struct_size = sizeof stats};
    CHECK_EQ(test_stats(&stats), 0);
    test_say("%lu refusals, near %lu times\n", (unsigned long)stats.limit_refusals, (unsigned long)stats.limit_nears);
    CHECK(stats.limit_refusals == 0 && stats.limit_nears == 0);
    free(buffer);
    return TEST_PASS;
}
