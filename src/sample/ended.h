/* SPDX-License-Identifier: MIT
 *
 * ended.h: for reports, who allocated a block and who freed it: a sampled one, or one whose record went lately, as it
 * does before a free looks at the block.
 *
 * Stacks of frees are kept at HAKMEM_SAFE=3 alone, and then many more of the records, as blocks wait long there.
 */
#pragma once

#include "sample/tables.h"
#include "watch/stack.h"

enum {
    ENDED_KEPT = 64,           /* records that went last */
    ENDED_KEPT_LONG = 1 << 16, /* ... once the stack of a free is kept, where each block is sampled */
};

/* The record goes. Under hk_sample_lock, as ended_clear_locked and those below. */
void ended_note_locked(const profile_sample_t *sample);
void ended_clear_locked(void);

/* Who freed the block, if its record is one of the last ENDED_KEPT that went: the number of the stack (sites.h) and the
 * thread. */
void ended_note_free_locked(const void *block, uint32_t stack, uint32_t thread);

/* The size that the block was asked for with, and its stacks; that of the free has no frames where it is not known.
 * False when they are not known, or when somebody holds the lock. Allocates nothing. */
bool ended_or_live_find(const void *block, size_t *asked, stack_trace_t *allocated, stack_trace_t *freed);
