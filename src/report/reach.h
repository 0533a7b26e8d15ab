/* SPDX-License-Identifier: MIT
 *
 * reach.h: which of some blocks the program can still reach (leaks.h).
 */
#pragma once

#include "base/base.h"

typedef struct reach_block {
    uintptr_t start;
    size_t size;
    uint32_t sample;
    uint32_t reached;
} reach_block_t;

typedef struct reach {
    char *copy;            /* a piece of memory that is being looked at; the others lie behind it */
    unsigned char *pages;  /* which of them were written to */
    reach_block_t *blocks; /* sorted by address once marked */
    uint32_t *waiting;     /* those whose contents are still to be looked at */
    size_t count, capacity, waiting_count, mapped;
    uintptr_t frame;     /* of the stack of the calling thread, from here on up */
    uintptr_t low, high; /* all blocks lie in between */
} reach_t;

/* Room for so many blocks and some more. */
bool reach_begin(reach_t *reach, size_t count);

/* False when what is mapped cannot be known. */
bool reach_mark(reach_t *reach);
void reach_end(reach_t *reach);
