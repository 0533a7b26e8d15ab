/* SPDX-License-Identifier: MIT
 *
 * Mapping: exactly there or not at all, over what is there, moved with and without its address range.
 */
#include "check.h"
#include "sys/sys.h"

#include <signal.h>

static size_t page;

static void fill(char *at, size_t size, int with) { memset(at, with, size); }

static bool holds(const char *at, size_t size, int with) {
    for (size_t i = 0; i < size; i++)
        if (at[i] != (char)with)
            return false;
    return true;
}

static void exactly_there(void) {
    char *hole = sys_map_none(16 * page);
    CHECK(hole != NULL);
    CHECK_EQ(sys_map_at(hole, page), EEXIST);
    sys_unmap(hole, 16 * page);
    CHECK_EQ(sys_map_at(hole + page, 2 * page), 0);
    CHECK(holds(hole + page, 2 * page, 0));
    fill(hole + page, 2 * page, 7);
    /* Any overlap is refused, and what is there stays. */
    CHECK_EQ(sys_map_at(hole, 2 * page), EEXIST);
    CHECK_EQ(sys_map_at(hole + 2 * page, 2 * page), EEXIST);
    CHECK_EQ(sys_map_at(hole, 16 * page), EEXIST);
    CHECK(holds(hole + page, 2 * page, 7));
    CHECK_EQ(sys_map_at(hole, page), 0);
    CHECK_EQ(sys_map_at(hole + 3 * page, page), 0);
    sys_unmap(hole, 4 * page);
    CHECK_EQ(sys_map_at(hole, 4 * page), 0);
    CHECK(holds(hole, 4 * page, 0));
    sys_unmap(hole, 4 * page);
}

static void over_what_is_there(void) {
    char *at = sys_map(4 * page);
    CHECK(at != NULL && (uintptr_t)at % page == 0);
    fill(at, 4 * page, 5);
    CHECK_EQ(sys_map_over(at + page, 2 * page), 0);
    CHECK(holds(at, page, 5));
    CHECK(holds(at + page, 2 * page, 0));
    CHECK(holds(at + 3 * page, page, 5));
    sys_unmap(at, 4 * page);
}

static void resized(void) {
    char *at = sys_map(4 * page);
    fill(at, 4 * page, 9);
    CHECK(sys_remap(at, 4 * page, 2 * page) == at);
    CHECK(holds(at, 2 * page, 9));
    char *larger = sys_remap(at, 2 * page, 64 * page);
    CHECK(larger != NULL);
    CHECK(holds(larger, 2 * page, 9));
    CHECK(holds(larger + 2 * page, 62 * page, 0));
    CHECK(sys_remap(larger, 64 * page, (size_t)1 << 60) == NULL);
    CHECK(holds(larger, 2 * page, 9));
    sys_unmap(larger, 64 * page);
}

/* The pages go, the source stays mapped and reads as zeros. */
static void pages_moved(void) {
    char *from = sys_map(8 * page), *to = sys_map(8 * page);
    fill(from, 8 * page, 3);
    fill(to, 8 * page, 4);
    int error = sys_move_pages(from + page, to + 2 * page, 3 * page);
    if (error == ENOTSUP)
        return;
    CHECK_EQ(error, 0);
    CHECK(holds(to, 2 * page, 4));
    CHECK(holds(to + 2 * page, 3 * page, 3));
    CHECK(holds(to + 5 * page, 3 * page, 4));
    CHECK(holds(from, page, 3));
    CHECK(holds(from + page, 3 * page, 0));
    CHECK(holds(from + 4 * page, 4 * page, 3));
    fill(from + page, 3 * page, 6);
    CHECK(holds(to + 2 * page, 3 * page, 3));
    sys_unmap(from, 8 * page);
    sys_unmap(to, 8 * page);
}

static void write_to_protected(void) {
    signal(SIGSEGV, SIG_DFL);
    volatile char *at = sys_map(page);
    CHECK_EQ(sys_protect_none((void *)(uintptr_t)at, page), 0);
    at[0] = 1;
}

static void no_access(void) {
    char text[256];
    CHECK(check_child(write_to_protected, 2, text, sizeof text) != 0);
}

int main(void) {
    page = sys_page_size();
    CHECK_EQ(page, sysconf(_SC_PAGESIZE));
    exactly_there();
    over_what_is_there();
    resized();
    pages_moved();
    no_access();
    CHECK(sys_map((size_t)1 << 60) == NULL);
    CHECK(sys_map_none((size_t)1 << 60) == NULL);
    return CHECK_PASS;
}
