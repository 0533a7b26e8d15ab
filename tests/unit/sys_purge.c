/* SPDX-License-Identifier: MIT
 *
 * Purging gives pages back at once: they are not resident and read as zeros, one range or many, in few calls.
 */
#include "check.h"
#include "old_kernel.h"
#include "sys/sys.h"

#include <sys/mman.h>
#include <unistd.h>

enum { RANGES = 130, PAGES = 2 * RANGES };

static size_t page;

static size_t resident(char *at, size_t count) {
    unsigned char flags[PAGES];
    size_t sum = 0;
    CHECK(mincore(at, count * page, flags) == 0);
    for (size_t i = 0; i < count; i++)
        sum += flags[i] & 1;
    return sum;
}

static void one(void) {
    char *at = sys_map(4 * page);
    memset(at, 1, 4 * page);
    CHECK_EQ(resident(at, 4), 4);
    sys_purge(at + page, 2 * page);
    CHECK_EQ(resident(at, 4), 2);
    for (size_t i = 0; i < 4 * page; i++)
        CHECK_EQ(at[i], i < page || i >= 3 * page);
    CHECK(!sys_purge_refused());
    sys_unmap(at, 4 * page);
}

/* By the kernel: sanitizers answer mlock themselves. */
static bool lock(char *at, size_t size) { return syscall(SYS_mlock, at, size) == 0; }

/* Locked pages are taken, or zeroed by hand where the kernel does not let go of them. */
static void locked(void) {
    char *at = sys_map(4 * page);
    memset(at, 1, 4 * page);
    if (!lock(at, 4 * page))
        return;
    sys_purge(at + page, 2 * page);
    for (size_t i = 0; i < 4 * page; i++)
        CHECK_EQ(at[i], i < page || i >= 3 * page);
    memset(at, 1, 4 * page);
    sys_range_t ranges[] = {{at, page}, {at + 2 * page, page}};
    CHECK(sys_purge_many(ranges, 2) <= 3);
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(at[i * page], i % 2);
    sys_unmap(at, 4 * page);
}

/* Every second page of a mapping; the others keep what they hold. Returns the calls made. */
static size_t many(size_t count) {
    char *at = sys_map(PAGES * page);
    sys_range_t ranges[RANGES];
    (void)sys_advise_no_huge(at, PAGES * page);
    memset(at, 1, PAGES * page);
    for (size_t i = 0; i < count; i++)
        ranges[i] = (sys_range_t){at + 2 * i * page, page};
    size_t calls = sys_purge_many(ranges, count);
    CHECK(calls <= count && (calls > 0) == (count > 0));
    CHECK_EQ(resident(at, PAGES), PAGES - count);
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(at[i * page], i % 2 == 1 || i / 2 >= count);
    sys_unmap(at, PAGES * page);
    return calls;
}

/* Pages that are locked for a time are no reason to do without the one call for good. */
static void locked_for_a_time(void) {
    size_t before = many(RANGES);
    locked();
    CHECK_EQ(many(RANGES), before);
}

static void supplied_ahead(void) {
    char *at = sys_map(8 * page);
    if (sys_populate(at, 4 * page) == 0)
        CHECK(resident(at, 8) >= 4);
    sys_unmap(at, 8 * page);
}

/* What is refused is refused for a while: pages are locked for a while too. */
static void refused(void) {
    char *at = sys_map(page);
    memset(at, 1, page);
    if (!become_old(MADV_DONTNEED_LOCKED) || !lock(at, page))
        return;
    sys_purge(at, page);
    CHECK(sys_purge_refused() && at[0] == 0 && resident(at, 1) == 1);
    usleep(1100 * 1000);
    CHECK(!sys_purge_refused());
    sys_purge(at, page);
    CHECK(sys_purge_refused());
    sys_unmap(at, page);
}

int main(void) {
    page = sys_page_size();
    one();
    (void)many(0);
    (void)many(1);
    (void)many(2);
    (void)many(63);
    (void)many(64);
    (void)many(65);
    (void)many(RANGES);
    supplied_ahead();
    locked_for_a_time();
    refused();
    return CHECK_PASS;
}
