/* SPDX-License-Identifier: MIT */
#include "sample/stack.h"

#include "sample/format.h"
#include "unwind/module.h"
#include "unwind/unwind.h"

static unsigned mark_of(unwind_end_t why) {
    static const uint8_t marks[] = {
        [UNWIND_COMPLETE] = 0,
        [UNWIND_FULL] = PROFILE_STACK_DEEPER,
        [UNWIND_NO_RULE] = PROFILE_STACK_NO_TABLES,
        [UNWIND_UNSUPPORTED] = PROFILE_STACK_UNSUPPORTED,
        [UNWIND_OUT_OF_BOUNDS] = PROFILE_STACK_OUT_OF_PLACE,
    };
    return marks[why];
}

/* How many of the first frames are of the library that this code is in. */
static unsigned own_frames(const uintptr_t *pcs, unsigned count) {
    unwind_module_t own;
    unsigned frames = 0;
    if (!unwind_module_find((uintptr_t)&sample_stack_capture, &own) || own.is_program)
        return 0;
    while (frames < count && pcs[frames] >= own.start && pcs[frames] < own.end)
        frames++;
    return frames;
}

/* Where a guess has led to what is no address. */
static unsigned plausible_frames(const uintptr_t *pcs, unsigned count) {
    unsigned frames = 0;
    while (frames < count && pcs[frames] >= PROFILE_STACK_CODE_MIN)
        frames++;
    return frames;
}

HK_NOINLINE void sample_stack_capture(sample_stack_t *stack, const void *caller) {
    unwind_end_t why;
    const unwind_start_t start = {.at = sys_registers_here(), .caller = (uintptr_t)caller};
    const unsigned count = unwind_capture(&start, stack->frames, SAMPLE_FRAMES_MAX, &why);
    unsigned own = own_frames(stack->frames, count);
    const bool found = own > 0 || stack->frames[0] == start.caller;
    stack->count = plausible_frames(stack->frames + own, count - own);
    stack->mark = stack->count < count - own ? PROFILE_STACK_NO_TABLES : mark_of(why);
    if (!found || stack->count == 0) {
        stack->frames[own = 0] = start.caller;
        stack->count = 1;
        stack->mark = PROFILE_STACK_NO_TABLES;
    }
    stack->pcs = stack->frames + own;
}
