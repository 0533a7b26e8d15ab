/* SPDX-License-Identifier: MIT
 *
 * stack.h: the stack of an allocation, without the frames of hakmem. Takes no lock.
 */
#pragma once

#include "base/base.h"

enum { SAMPLE_FRAMES_MAX = 128 };

typedef struct sample_stack {
    unsigned count, mark; /* PROFILE_STACK_*, or 0 when the stack is whole */
    const uintptr_t *pcs; /* the innermost first */
    uintptr_t frames[SAMPLE_FRAMES_MAX];
} sample_stack_t;

/* That of the calling thread. Frames of ours are left out: those below the return address `caller`, and where we are a
 * library all up to the first that is not in it. */
void sample_stack_capture(sample_stack_t *stack, const void *caller);
