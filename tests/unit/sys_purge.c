/* SPDX-License-Identifier: MIT
 *
 * Purging gives pages back at once: they are not resident and read as zeros, one range or many, in few calls.
 */
#include "check.h"
#include "sys/sys.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

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

/* Locked pages are taken, or zeroed by hand where the kernel does not let go of them. */
static void locked(void) {
    char *at = sys_map(4 * page);
    memset(at, 1, 4 * page);
    if (mlock(at, 4 * page) != 0)
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

/* Every second page of a mapping; the others keep what they hold. */
static void many(size_t count) {
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
}

static void supplied_ahead(void) {
    char *at = sys_map(8 * page);
    if (sys_populate(at, 4 * page) == 0)
        CHECK(resident(at, 8) >= 4);
    sys_unmap(at, 8 * page);
}

/* A kernel before 5.18, which has no advice to take locked pages back. */
static void become_old(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED_LOCKED, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        exit(CHECK_PASS);
}

/* What is refused is refused for a while: pages are locked for a while too. */
static void refused(void) {
    char *at = sys_map(page);
    memset(at, 1, page);
    become_old();
    if (mlock(at, page) != 0)
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
    many(0);
    many(1);
    many(2);
    many(63);
    many(64);
    many(65);
    many(RANGES);
    supplied_ahead();
    locked();
    refused();
    return CHECK_PASS;
}
