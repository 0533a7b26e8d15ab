/* SPDX-License-Identifier: MIT
 *
 * describe.h: what hakmem knows of an address, as one record. Filled by hk_describe (report/describe.h), printed by the
 * crash report and by misuse reports. A snapshot: other threads may change what it says at any time.
 */
#pragma once

#include "base/base.h"

typedef struct hk_description {
    enum hk_where {
        HK_WHERE_NOT_OURS,
        HK_WHERE_BLOCK,     /* inside a block of a slab */
        HK_WHERE_SLAB_TAIL, /* behind the last block of a slab; `block` is that last block */
        HK_WHERE_LARGE,     /* inside a run of slots */
        HK_WHERE_HUGE,      /* inside a mapping of its own */
        HK_WHERE_APART,     /* at a block of size 0, or a guarded one: in it, or in what is closed behind it */
        HK_WHERE_FREE_SLOT, /* our memory, holding no block now */
        HK_WHERE_METADATA,  /* our own records */
        HK_WHERE_COUNT
    } where;
    const void *block; /* start of the block; NULL when there is none */
    size_t block_size; /* its usable bytes */
    size_t offset;     /* of the address from `block` */
    bool is_free;
    uint32_t owner; /* id of the heap that owns it, 0 when unknown */
} hk_description_t;
