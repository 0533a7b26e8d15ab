/* SPDX-License-Identifier: MIT
 *
 * exit_stats.c: statistics at exit reach the standard error that there was when they were asked for. Programs close descriptor 2 before
 * they end, to learn of errors (all of GNU coreutils), and daemons make another file of it.
 *
 * So a second descriptor for it is kept while HAKMEM_STATS is on. Who forks and goes on as a daemon must not hold a pipe that its
 * parent reads to the end: a child has none. It may have made a log of descriptor 2, which is open for appending alone; any other file
 * there (a database, a connection, the program's output) gets nothing.
 */
#include "api/stats.h"
#include "core/options.h"
#include "sys/confined.h"
#include "sys/libc_doors.h"
#include "sys/sys.h"

#include <stdatomic.h>

enum {
    STATS_FD = 2,
    STATS_FD_KEPT = 997 /* from here on: beyond the numbers that programs choose for themselves */
};

static atomic_flag asked = ATOMIC_FLAG_INIT;
/* Written by who asks first, and in a child of fork. */
static bool knows; /* which file standard error was, or that there was none */
static sys_file_t first, kept = {.fd = -1};

static void after_fork_in_child(void) {
    if (sys_file_is_kept(&kept))
        sys_file_close(&kept);
}

void hk_stats_asked(void) {
    if (hk_option(HK_OPT_STATS) == HK_STATS_OFF || atomic_flag_test_and_set_explicit(&asked, memory_order_relaxed))
        return;
    first = sys_file(STATS_FD);
    kept = sys_file_keep(&first, STATS_FD_KEPT);
    knows = first.inode != 0 || !sys_is_open(STATS_FD);
    if (kept.inode != 0)
        (void)libc_fork_child_hook_init(after_fork_in_child);
}

/* -1 is nowhere. */
static int stats_fd(void) {
    if (!knows || sys_is_confined())
        return STATS_FD;
    const sys_file_t now = sys_file(STATS_FD);
    if (sys_file_is_same(&now, &first))
        return STATS_FD;
    if (sys_file_is_kept(&kept))
        return (int)kept.fd;
    return first.inode != 0 && sys_file_is_log(&now) ? STATS_FD : -1;
}

void hk_stats_at_exit(void) {
    int64_t wanted = hk_option(HK_OPT_STATS);
    int fd = wanted != HK_STATS_OFF ? stats_fd() : -1;
    if (fd >= 0)
        hak_stats_print(fd, wanted == HK_STATS_JSON ? HAK_FORMAT_JSON : HAK_FORMAT_TEXT);
}
