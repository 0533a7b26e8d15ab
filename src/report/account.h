/* SPDX-License-Identifier: MIT
 *
 * account.h: what the resident pages of the heap are used for.
 *
 * The kernel is asked which pages are resident (mincore), and the slot table and the bitmaps say what lies on them. The
 * sum is therefore what the process shows, whatever was given back, never touched or came along with a huge page. For
 * statistics on demand: it costs about 10 us a superslab.
 */
#pragma once

#include "slab/size_class.h"

/* Resident bytes. */
typedef struct account {
    uint64_t slabs;                        /* all slabs */
    uint64_t blocks_used[HK_CLASS_COUNT];  /* of those, blocks that are not free in their slab: live or in a magazine */
    uint64_t runs_live, runs_cached, huge; /* large and huge blocks */
    uint64_t retained;                     /* free slots */
    uint64_t metadata;                     /* our own records */
    uint64_t huge_page_waste; /* of slabs and retained: resident only because a huge page is resident as a whole */
} account_t;

/* Takes the locks of all heaps in turn, one at a time. */
void heap_account(account_t *account);
