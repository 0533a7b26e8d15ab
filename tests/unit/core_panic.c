/* SPDX-License-Identifier: MIT
 *
 * Reports of misuse: the exact line, and what each choice of ON_ERROR does next. Fatal errors and broken invariants
 * abort.
 */
#include "check.h"
#include "core/options.h"
#include "core/panic.h"

#include <signal.h>

static char text[4096];

static void misuse(void) {
    hk_misuse(&(hk_misuse_t){.what = "double free of", .address = (void *)0x1000, .caller = (void *)0x2000},
              "%zu-byte block, free", (size_t)64);
    CHECK_EQ(hk_misuse_count(), 1);
}

static void nobody(void) { hk_misuse_found("double free of", (void *)0x1000, "found later"); }

static void reported(void) {
    CHECK_EQ(hk_option_set("ON_ERROR", "report"), 0);
    misuse();
}

static void ignored(void) {
    CHECK_EQ(hk_option_set("ON_ERROR", "ignore"), 0);
    misuse();
}

static void fatal(void) { hk_fatal("cannot do %d things", 3); }
static void broken(void) { hk_assert_failed("a == b", "file.c", 12); }

static bool aborted(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT; }

int main(void) {
    static const char line[] = "hakmem: double free of 0x1000 (64-byte block, free), called from 0x2000\n";
    CHECK(aborted(check_child(misuse, 2, text, sizeof text)));
    CHECK_STR(text, line);
    CHECK_EQ(check_child(reported, 2, text, sizeof text), 0);
    CHECK_STR(text, line);
    CHECK_EQ(check_child(ignored, 2, text, sizeof text), 0);
    CHECK_STR(text, "");
    CHECK(aborted(check_child(nobody, 2, text, sizeof text)));
    CHECK_STR(text, "hakmem: double free of 0x1000 (found later)\n");
    CHECK(aborted(check_child(fatal, 2, text, sizeof text)));
    CHECK_STR(text, "hakmem: fatal: cannot do 3 things\n");
    CHECK(aborted(check_child(broken, 2, text, sizeof text)));
    CHECK_STR(text, "hakmem: invariant broken at file.c:12: a == b\n");
    CHECK_EQ(hk_misuse_count(), 0);
    return CHECK_PASS;
}
