/* SPDX-License-Identifier: MIT
 *
 * Long blocks that come and go, and of which a program touches little, beside small ones that stay: an interpreter that
 * copies the rest of its source for each statement. Small blocks take the places of the long ones and fill them, which
 * is no sign that the next long one will be filled.
 */
#include "testing.h"

enum { STATEMENTS = 10000, SOURCE = 1160000, NODES = 14, TOUCHED = 200 };

static size_t stays;

static void node(size_t size) {
    char *block = test_opaque(malloc(size));
    CHECK(block != NULL);
    memset(block, 1, size);
    stays += size;
}

int main(void) {
    test_require_hakmem();
    for (size_t i = 0; i < STATEMENTS; i++) {
        char *rest = test_opaque(malloc(SOURCE - SOURCE / STATEMENTS * i));
        memset(rest, 1, TOUCHED);
        rest = test_opaque(realloc(rest, TOUCHED));
        memset(rest, 1, TOUCHED);
        free(rest);
        for (size_t k = 0; k < NODES; k++)
            node(40 + 24 * k);
    }
    const size_t peak = (size_t)test_status_kib("VmHWM:") * TEST_KIB;
    test_say("%zu bytes stay, at most %zu were resident\n", stays, peak);
    CHECK(peak <= stays + stays / 4);
    return TEST_PASS;
}
