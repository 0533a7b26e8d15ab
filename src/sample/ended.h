/* SPDX-License-Identifier: MIT
 *
 * ended.h: for reports, who allocated a block: a sampled one, or one whose record went lately, as it does before a free
 * looks at the block.
 */
#ifndef HK_SAMPLE_ENDED_H
#define HK_SAMPLE_ENDED_H

#include "sample/tables.h"
#include "watch/stack.h"

enum { ENDED_KEPT = 64 };

/* The record goes. Under hk_sample_lock, as ended_clear. */
void ended_note_locked(const profile_sample_t *sample);
void ended_clear_locked(void);

/* The size that the block was asked for with, and its stack. False when they are not known, or when somebody holds the
 * lock. Allocates nothing. */
bool ended_or_live_find(const void *block, size_t *asked, stack_trace_t *allocated);

#endif
