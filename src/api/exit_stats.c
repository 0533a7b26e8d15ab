/* SPDX-License-Identifier: MIT
 *
 * exit_stats.c: statistics at exit, to standard error or to a file. A program may close descriptor 2 before it ends, to
 * learn of errors (all of GNU coreutils), and open a file of its own at that number: that gets nothing.
 */
#include "api/exit_stats.h"

#include "api/stats.h"
#include "core/errors.h"
#include "core/message.h"
#include "core/options.h"
#include "core/print.h"
#include "hakmem.h"
#include "start/load.h"
#include "start/start.h"
#include "sys/sys.h"

#include <limits.h>
#include <string.h>

enum { STDERR = 2 };

void hk_stats_at_exit(void) {
    int64_t wanted = hk_option(HK_OPT_STATS);
    if (hk_output_choice(wanted) == HK_STATS_OFF)
        return;
    if (heap_system_ready() && heap_stuck_at_exit() != NULL) {
        hk_message(HEAP_STUCK_AT_EXIT, "no statistics");
        return;
    }
    hak_format_t format = hk_output_choice(wanted) == HK_STATS_JSON ? HAK_FORMAT_JSON : HAK_FORMAT_TEXT;
    const char *name = hk_output_file(wanted);
    char path[PATH_MAX], text[HK_ERROR_TEXT];
    if (name == NULL) {
        if (!sys_is_data(STDERR))
            hak_stats_print(STDERR, format);
        return;
    }
    long fd = hk_path_expand(path, sizeof path, name) ? sys_open_append(path) : -ENAMETOOLONG;
    const long error = fd < 0 ? -fd : stats_write((int)fd, format);
    if (error != 0)
        hk_message("no statistics: cannot write to %s: %s", path, hk_error_text(error, text));
    if (fd >= 0)
        sys_close(fd);
}
