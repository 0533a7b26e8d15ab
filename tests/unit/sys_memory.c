/* SPDX-License-Identifier: MIT
 *
 * Mapping: exactly there or not at all, over what is there, moved with and without its address range. What can be read.
 */
#include "check.h"
#include "sys/confined.h"
#include "sys/sys.h"

#include <signal.h>
#include <sys/mman.h>

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

static bool is_mapped(char *at) {
    unsigned char resident;
    return mincore(at, page, &resident) == 0;
}

/* The pages replace what is at the target and are followed by fresh ones; the source is gone. */
static void moved(void) {
    char *from = sys_map(8 * page), *to = sys_map(16 * page);
    fill(from, 8 * page, 3);
    fill(to, 16 * page, 4);
    CHECK_EQ(sys_move_grow(from, 8 * page, to + 2 * page, 10 * page), 0);
    CHECK(holds(to, 2 * page, 4));
    CHECK(holds(to + 2 * page, 8 * page, 3));
    CHECK(holds(to + 10 * page, 2 * page, 0));
    CHECK(holds(to + 12 * page, 4 * page, 4));
    for (unsigned i = 0; i < 8; i++)
        CHECK(!is_mapped(from + i * page));
    /* Once more: it is one mapping still. */
    char *next = sys_map(12 * page);
    CHECK_EQ(sys_move_grow(to + 2 * page, 10 * page, next, 12 * page), 0);
    CHECK(holds(next, 8 * page, 3) && holds(next + 8 * page, 4 * page, 0));
    CHECK(!is_mapped(to + 2 * page) && is_mapped(to + page));
    CHECK(sys_move_grow(from, 8 * page, next, 12 * page) > 0);
    sys_unmap(to, 2 * page);
    sys_unmap(to + 12 * page, 4 * page);
    sys_unmap(next, 12 * page);
}

static void write_to_protected(void) {
    signal(SIGSEGV, SIG_DFL);
    volatile char *at = sys_map(page);
    CHECK_EQ(mprotect((void *)(uintptr_t)at, page, PROT_NONE), 0);
    at[0] = 1;
}

static void no_access(void) {
    char text[256];
    CHECK(check_child(write_to_protected, 2, text, sizeof text) != 0);
}

static void readable(void) {
    char *at = sys_map(3 * page);
    CHECK_EQ(mprotect(at + page, page, PROT_NONE), 0);
    sys_unmap(at + 2 * page, page);
    for (unsigned confined = 0; confined < 2; confined++) {
        CHECK(sys_is_readable((uintptr_t)at) && sys_is_readable((uintptr_t)at + page - 1));
        CHECK(sys_is_readable((uintptr_t)&readable));
        CHECK(!sys_is_readable((uintptr_t)at + page) && !sys_is_readable((uintptr_t)at + 2 * page));
        CHECK(!sys_is_readable(0) && !sys_is_readable(UINTPTR_MAX));
        sys_confine();
    }
}

/* In a confined process nothing more is fenced, and what is so is to be mapped anew. */
static void fenced(void) {
    char *at = sys_map(2 * page);
    for (unsigned round = 0; round < 2; round++) {
        CHECK(sys_fence(at, page) && !sys_is_readable((uintptr_t)at) && sys_is_readable((uintptr_t)at + page));
        CHECK(sys_unfence(at, page) || sys_map_over(at, page) == 0);
        CHECK(sys_is_readable((uintptr_t)at) && at[0] == 0);
    }
    CHECK(sys_fence(at, page));
    sys_confine();
    CHECK(!sys_fence(at + page, page) && sys_is_readable((uintptr_t)at + page));
    CHECK(!sys_unfence(at, page) && !sys_is_readable((uintptr_t)at));
}

int main(void) {
    page = sys_page_size();
    CHECK_EQ(page, sysconf(_SC_PAGESIZE));
    exactly_there();
    over_what_is_there();
    resized();
    moved();
    no_access();
    CHECK(sys_map((size_t)1 << 60) == NULL);
    CHECK(sys_map_none((size_t)1 << 60) == NULL);
    char text[256];
    CHECK_EQ(check_child(fenced, 2, text, sizeof text), 0);
    readable();
    return CHECK_PASS;
}
