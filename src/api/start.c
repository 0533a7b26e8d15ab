/* SPDX-License-Identifier: MIT */
#include "api/start.h"

#include "api/stats.h"
#include "core/options.h"
#include "core/panic.h"
#include "front/front.h"
#include "inspect/record.h"
#include "report/describe.h"
#include "start/load.h"
#include "start/start.h"
#include "watch/crash.h"
#include "watch/stack.h"

/* For the link editor: who takes this out of the archive takes the record too. */
static __attribute__((used)) const inspect_record_t *const also_needed = &hk_inspect;

__attribute__((constructor)) void hk_library_loaded(void) {
    if (heap_current() == NULL)
        return;
    hk_stats_note_program();
    hk_misuse_stack_init(stack_show_callers);
    if (hk_option(HK_OPT_CRASH_REPORT) != 0)
        crash_report_init(hk_describe);
    if (hk_option(HK_OPT_WARMUP) > 0)
        heap_warm_up((size_t)hk_option(HK_OPT_WARMUP));
}

static __attribute__((destructor)) void process_exits(void) {
    heap_at_exit();
    hk_stats_at_exit();
}
