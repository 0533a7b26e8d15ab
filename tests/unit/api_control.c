/* SPDX-License-Identifier: MIT
 *
 * The small calls of hakmem.h: version, build facts, options, and the ones that the heap answers.
 */
#include "check.h"
#include "unit/fake_heap.h"

#include <errno.h>

static char text[8192];

static void print_options(void) { hak_options_print(1); }

int main(void) {
    char version[32];
    snprintf(version, sizeof version, "hakmem %d.%d.%d, ", HAK_VERSION_MAJOR, HAK_VERSION_MINOR, HAK_VERSION_PATCH);
    CHECK_EQ(hak_version(), HAK_VERSION_MAJOR * 10000 + HAK_VERSION_MINOR * 100 + HAK_VERSION_PATCH);
    CHECK(strncmp(hak_build_info(), version, strlen(version)) == 0);
    CHECK_HAS(hak_build_info(), " build");
    CHECK(strchr(hak_build_info(), '\n') == NULL);

    char value[16];
    CHECK_EQ(hak_option_set("PURGE_DELAY", "7"), 0);
    CHECK_EQ(hak_option_get("purge_delay", value, sizeof value), 0);
    CHECK_STR(value, "7");
    CHECK_EQ(hak_option_set("NOPE", "7"), ENOENT);
    CHECK_EQ(check_child(print_options, 1, text, sizeof text), 0);
    CHECK_HAS(text, "  HAKMEM_PURGE_DELAY    7          program\n");

    CHECK(hak_owns(text));
    CHECK_EQ(hak_trim(), FAKE_TRIMMED);
    CHECK_EQ(hak_check(), 2);
    return CHECK_PASS;
}
