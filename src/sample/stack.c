/* SPDX-License-Identifier: MIT */
#include "sample/stack.h"

#include "sample/format.h"
#include "unwind/module.h"
#include "unwind/unwind.h"

#include <stdatomic.h>

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

/* The library that this code is in, which is never unloaded; empty in a program. Of all threads: each would write the
 * same. */
static _Atomic uintptr_t own_start, own_end; /* end 0: not known yet */

static void find_own(void) {
    unwind_module_t own;
    const bool found = unwind_module_find((uintptr_t)&sample_stack_capture, &own) && !own.stays;
    atomic_store_explicit(&own_start, found ? own.start : 1, memory_order_relaxed);
    /* Release: who sees the end sees the start. Pairs with the acquire in own_frames. */
    atomic_store_explicit(&own_end, found ? own.end : 1, memory_order_release);
}

/* How many of the first frames are of it. */
static unsigned own_frames(const uintptr_t *pcs, unsigned count) {
    unsigned frames = 0;
    if (atomic_load_explicit(&own_end, memory_order_relaxed) == 0)
        find_own();
    const uintptr_t end = atomic_load_explicit(&own_end, memory_order_acquire);
    const uintptr_t start = atomic_load_explicit(&own_start, memory_order_relaxed);
    while (frames < count && pcs[frames] >= start && pcs[frames] < end)
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

/* The caller was not met. Behind our own frames then is somebody's code, but where a guess has led out of them: a
 * library that is linked without a table of the tables, as musl-gcc does. */
static bool leads_to_code(const uintptr_t *pcs, unsigned own, unsigned count) {
    unwind_module_t module;
    return own > 0 && own < count && unwind_module_find(pcs[own], &module);
}

HK_NOINLINE void sample_stack_capture(sample_stack_t *stack, const void *caller) {
    unwind_end_t why;
    const unwind_start_t start = {.at = sys_registers_here(), .caller = (uintptr_t)caller};
    const unsigned count = unwind_capture(&start, stack->frames, SAMPLE_FRAMES_MAX, &why);
    unsigned own = own_frames(stack->frames, count);
    const bool found = stack->frames[0] == start.caller || leads_to_code(stack->frames, own, count);
    stack->count = plausible_frames(stack->frames + own, count - own);
    stack->mark = stack->count < count - own ? PROFILE_STACK_NO_TABLES : mark_of(why);
    if (!found || stack->count == 0) {
        stack->frames[own = 0] = start.caller;
        stack->count = 1;
        stack->mark = PROFILE_STACK_NO_TABLES;
    }
    stack->pcs = stack->frames + own;
}
