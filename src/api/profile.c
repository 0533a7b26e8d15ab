/* SPDX-License-Identifier: MIT */
#include "api/profile.h"

#include "api/exit_stats.h"
#include "core/errors.h"
#include "core/options.h"
#include "core/message.h"
#include "core/print.h"
#include "hakmem.h"
#include "report/figures.h"
#include "report/leaks.h"
#include "sample/image.h"
#include "sample/sampler.h"
#include "sample/tables.h"
#include "slow/tick.h"
#include "start/load.h"
#include "start/start.h"
#include "sys/libc_doors.h"
#include "sys/sys.h"

#include <errno.h>
#include <limits.h>

enum { LEAKS_STATUS = 23 };

HK_EXPORT int hak_profile_start(size_t interval) {
    if (!heap_system_ready())
        return ENOMEM;
    sample_start(interval, SAMPLE_FOR_PROGRAM);
    heap_hurry_all();
    return 0;
}

HK_EXPORT void hak_profile_stop(void) {
    if (heap_system_ready())
        sample_stop();
}

HK_EXPORT void hak_profile_reset(void) {
    if (!heap_system_ready())
        return;
    sample_reset();
    heap_hurry_all();
}

HK_EXPORT int hak_profile_write(int fd) { return heap_system_ready() ? image_write(fd, hk_figures_text) : ENOMEM; }

/* --- Options ------------------------------------------------------------------------------------------------------ */

void hk_profile_at_start(void) {
    const int64_t wanted = hk_option(HK_OPT_PROFILE);
    const bool leaks = hk_option(HK_OPT_LEAKS) != HK_LEAKS_OFF;
    if (!hk_profile_is_on(wanted) && !leaks)
        return;
    if (hak_profile_start(hk_profile_is_on(wanted) ? (size_t)1 << hk_profile_log2(wanted) : 1) != 0)
        hk_message("no heap profile: out of memory");
}

static void write_at_exit(const char *name) {
    char path[PATH_MAX], text[HK_ERROR_TEXT];
    int error = hk_path_expand(path, sizeof path, name) ? image_write_file(path, hk_figures_text) : ENAMETOOLONG;
    if (error != 0)
        hk_message("no heap profile in %s: %s", path, hk_error_text(error, text));
}

void hk_profile_at_exit(const void *frame) {
    const char *name = hk_profile_file(hk_option(HK_OPT_PROFILE));
    const int64_t leaks = hk_option(HK_OPT_LEAKS);
    if ((name == NULL && leaks == HK_LEAKS_OFF) || !heap_system_ready())
        return;
    const hk_lock_t *stuck = heap_stuck_at_exit();
    const bool writes = name != NULL && sample_was_ever_on();
    if (writes && stuck == NULL)
        write_at_exit(name);
    else if (writes)
        hk_message(HEAP_STUCK_AT_EXIT, "no heap profile");
    if (leaks == HK_LEAKS_OFF)
        return;
    const bool may_look = stuck == NULL || stuck == &hk_sample_lock;
    const size_t lost = may_look ? hk_leaks_report(frame, stuck == NULL) : LEAKS_UNKNOWN;
    if (!may_look)
        hk_message(HEAP_STUCK_AT_EXIT, "leaks are not looked for");
    else if (lost == LEAKS_UNKNOWN)
        hk_message("leaks cannot be looked for: /proc/self/maps cannot be read, or memory is out");
    if (lost > 0 && leaks == HK_LEAKS_FAIL) {
        libc_exit_otherwise(LEAKS_STATUS);
        sys_exit(LEAKS_STATUS);
    }
}
