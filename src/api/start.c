/* SPDX-License-Identifier: MIT */
#include "api/start.h"

#include "api/profile.h"
#include "api/exit_stats.h"
#include "api/stats.h"
#include "core/options.h"
#include "core/panic.h"
#include "helper/control.h"
#include "helper/helper.h"
#include "inspect/orders.h"
#include "inspect/record.h"
#include "report/check.h"
#include "report/describe.h"
#include "sample/ended.h"
#include "sample/sampler.h"
#include "slow/tick.h"
#include "start/load.h"
#include "start/start.h"
#include "start/stay.h"
#include "watch/crash.h"
#include "watch/guard.h"
#include "watch/report.h"

/* For the link editor: who takes this out of the archive takes the record too. */
static __attribute__((used)) const inspect_record_t *const also_needed = &hk_inspect;

static size_t statistics_as_json(char *text, size_t size) { return hak_stats_format(text, size, HAK_FORMAT_JSON); }

static bool stacks_of(const void *block, size_t *asked, stack_trace_t *allocated, stack_trace_t *freed) {
    return guard_stacks(block, asked, allocated, freed) ||
           (sample_was_ever_on() && ended_or_live_find(block, asked, allocated, freed));
}

__attribute__((constructor)) void hk_library_loaded(void) {
    stay_loaded();
    inspect_follow_orders(statistics_as_json);
    if (heap_current() == NULL)
        return;
    heap_verify_by(hk_check_all);
    hk_stats_note_program();
    report_init(&(const report_sources_t){.describe = hk_describe, .stacks = stacks_of});
    hk_profile_at_start();
    crash_report_init(hk_describe);
    guard_init();
    if (guard_interval() != 0)
        heap_hurry_all();
    if (hk_option(HK_OPT_WARMUP) > 0)
        heap_warm_up((size_t)hk_option(HK_OPT_WARMUP));
    control_init();
    helper_watch();
}

static __attribute__((destructor)) void process_exits(void) {
    control_at_exit();
    heap_at_exit();
    hk_stats_at_exit();
    hk_profile_at_exit(__builtin_frame_address(0));
}
