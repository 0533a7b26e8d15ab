/* SPDX-License-Identifier: MIT */
#include "watch/stack.h"

#include "core/panic.h"
#include "core/place.h"
#include "core/print.h"
#include "unwind/unwind.h"

void stack_show(const uintptr_t *pcs, unsigned count, unwind_end_t why, const char *prefix) {
    char place[HK_PLACE_TEXT_MAX];
    for (unsigned i = 0; i < count; i++) {
        hk_place_describe((const void *)pcs[i], place);
        hk_message("%s  from %s", prefix, place);
    }
    if (why != UNWIND_COMPLETE)
        hk_message("%s  [%s]", prefix, unwind_end_text(why));
}

void stack_show_callers(const void *caller) {
    uintptr_t pcs[STACK_FRAMES_MAX];
    unwind_end_t why;
    if (hk_misuse_count() > STACK_REPORTS_MAX)
        return;
    const unwind_start_t start = {.at = sys_registers_here(), .caller = (uintptr_t)caller};
    const unsigned count = unwind_capture(&start, pcs, STACK_FRAMES_MAX, &why);
    if (pcs[0] == start.caller)
        stack_show(pcs + 1, count - 1, why, "");
}

void stack_show_interrupted(const sys_registers_t *at, const char *prefix) {
    uintptr_t pcs[STACK_FRAMES_MAX];
    unwind_end_t why;
    const unwind_start_t start = {.at = *at};
    const unsigned count = unwind_capture(&start, pcs, STACK_FRAMES_MAX, &why);
    stack_show(pcs, count, why, prefix);
}
