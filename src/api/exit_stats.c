/* SPDX-License-Identifier: MIT
 *
 * exit_stats.c: statistics at exit reach the standard error that the process was started with. Programs close descriptor 2 before
 * they end, to learn of errors (all of GNU coreutils), and daemons make another file of it.
 *
 * So a second descriptor for it is kept while HAKMEM_STATS is on. Who forks and goes on as a daemon must not hold a pipe that its
 * parent reads to the end: a child has none.
 */
#include "api/stats.h"
#include "core/options.h"
#include "sys/confined.h"
#include "sys/libc_doors.h"
#include "sys/sys.h"

#include <stdatomic.h>

enum {
    STATS_FD = 2,
    STATS_FD_KEPT = 230 /* from here on: beyond the numbers that programs choose for themselves */
};

/* Written before there is a second thread, and in a child of fork. */
static bool knows; /* which file standard error was, or that there was none */
static sys_file_t first, kept = {.fd = -1};

static void after_fork_in_child(void) { sys_file_close(&kept); }

void hk_stats_at_start(void) {
    first = sys_file(STATS_FD);
    knows = first.inode != 0 || !sys_is_open(STATS_FD);
    kept = sys_file_keep(&first, STATS_FD_KEPT);
    if (kept.inode != 0)
        (void)libc_fork_child_hook_init(after_fork_in_child);
}

/* Descriptor 2 may lead to what was opened since. A log is good for statistics; it is open for writing only, which a database or a
 * connection is not. -1 is nowhere. */
static int stats_fd(void) {
    if (!knows || sys_is_confined())
        return STATS_FD;
    const sys_file_t now = sys_file(STATS_FD);
    if (sys_file_is_same(&now, &first) || (first.inode != 0 && sys_file_is_write_only(&now)))
        return STATS_FD;
    return sys_file_is_still(&kept) ? (int)kept.fd : -1;
}

void hk_stats_at_exit(void) {
    int64_t wanted = hk_option(HK_OPT_STATS);
    int fd = wanted != HK_STATS_OFF ? stats_fd() : -1;
    if (fd >= 0)
        hak_stats_print(fd, wanted == HK_STATS_JSON ? HAK_FORMAT_JSON : HAK_FORMAT_TEXT);
}
