/* SPDX-License-Identifier: MIT */
#include "watch/stack.h"

#include "core/message.h"
#include "core/panic.h"
#include "core/place.h"
#include "sys/sys.h"

void stack_trace_here(stack_trace_t *trace, const void *caller) {
    const unwind_start_t start = {.at = sys_registers_here(), .caller = (uintptr_t)caller};
    trace->thread = sys_thread_id_unless_confined();
    trace->count = unwind_capture(&start, trace->pcs, STACK_FRAMES_MAX, &trace->why);
}

static void show(const stack_trace_t *trace, const char *prefix) {
    char place[HK_PLACE_TEXT_MAX];
    hk_assert(trace->count <= STACK_FRAMES_MAX);
    for (unsigned i = 0; i < trace->count; i++) {
        hk_place_describe((const void *)trace->pcs[i], place);
        hk_message("%s  from %s", prefix, place);
    }
    if (trace->why != UNWIND_COMPLETE)
        hk_message("%s  [%s]", prefix, unwind_end_text(trace->why));
}

void stack_show_trace(const char *what, const stack_trace_t *trace) {
    if (trace->count == 0)
        return;
    hk_message("  %s by thread %u:", what, trace->thread);
    show(trace, "  ");
}

void stack_show_interrupted(const sys_registers_t *at, const char *prefix) {
    stack_trace_t trace;
    const unwind_start_t start = {.at = *at};
    trace.count = unwind_capture(&start, trace.pcs, STACK_FRAMES_MAX, &trace.why);
    show(&trace, prefix);
}
