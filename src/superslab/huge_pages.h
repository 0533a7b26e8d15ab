/* SPDX-License-Identifier: MIT
 *
 * huge_pages.h: which superslabs ask for huge pages.
 */
#pragma once

#include "superslab/pool.h"

/* Whether superslabs that are to be opened for so many slots earn them. */
bool pool_earns_huge_locked(size_t slot_count, slots_use_t use);
bool pool_records_earn_huge(void);

/* Asks the kernel for huge or for small pages. */
void pool_advise_locked(size_t first, size_t count, bool huge);

/* Notes what the superslab is advised for, unless the mappings would become too many. Returns whether it may. */
bool pool_set_huge_locked(superslab_t *s, bool huge);

/* Whether the last superslab of a run may have small pages behind huge ones, as little else would be there: that is one
 * place more where advice changes. */
bool pool_tail_is_small_locked(void);

/* Of a mapping that was not asked about. */
void pool_forget_huge_locked(superslab_t *s);

/* Superslabs of which nothing is resident are taken into use for `slot_count` sparse slots. How those of small pages
 * are filled decides for others. */
void pool_opened_sparse_locked(size_t first, size_t count, size_t slot_count);

/* A superslab of small pages that was opened for `slot_count` slots when `opened` sparse ones had been. When it is due,
 * `small_mask` has its slots that were taken last for small blocks: these are filled, whatever else was there. */
typedef struct pool_trial {
    uint32_t index; /* 0: none */
    uint32_t opened;
    uint32_t slot_count;
    uint32_t small_mask;
} pool_trial_t;

/* The one that is to be looked at next; the look itself needs no lock. */
pool_trial_t pool_due_trial_locked(void);
void pool_look_at(const pool_trial_t *trial);

/* Before pages of slabs in superslab `index` are given back: true when that is right. A superslab of huge pages must
 * have enough of it free, `free_bytes` in its slabs included; it is then advised against huge pages for good. */
bool superslab_make_small(size_t index, size_t free_bytes);
