/* SPDX-License-Identifier: MIT
 *
 * sites.h: stacks and what was allocated with each of them.
 *
 * Stacks are a tree: a node is a frame and its caller, and equal ones are one node. Sites are the nodes that have
 * allocated, with sums. Under hk_sample_lock.
 */
#pragma once

#include "sample/chance.h"
#include "sample/tables.h"

/* The first entries of empty tables: the stack and the site for which there is no room. False when memory is out. */
bool sites_begin(void);
void sites_clear(void);

/* A stack by its number, the innermost frame first. `mark` is PROFILE_STACK_* when it is not whole, or 0. `most` stacks
 * may there be; what does not fit is the one for which there is no room. */
uint32_t sites_stack(const uintptr_t *pcs, unsigned count, unsigned mark, uint32_t most);

/* The site of a stack. `most` stacks and sites may there be; what does not fit is the site without a stack. */
uint32_t site_of(const uintptr_t *pcs, unsigned count, unsigned mark, uint32_t most_stacks, uint32_t most_sites);

/* NULL in its place: nothing is known of how the block ended. */
typedef struct site_end {
    uint64_t age_us;
    bool same_thread;
} site_end_t;

void site_count_alloc(uint32_t site, chance_weight_t weight);
void site_count_free(uint32_t site, chance_weight_t weight, const site_end_t *end);

/* What is live now is the peak, if it is. */
void sites_note_peak(void);

/* What is live changes without an allocation or a free of the program's. */
void site_add_live(uint32_t site, chance_weight_t weight);
void site_subtract_live(uint32_t site, chance_weight_t weight);
