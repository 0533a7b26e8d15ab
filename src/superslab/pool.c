/* SPDX-License-Identifier: MIT */
#include "superslab/pool.h"

#include "core/panic.h"

hk_lock_t hk_superslab_lock = HK_LOCK_INIT(HK_RANK_SUPERSLAB);
pool_counts_t hk_pool;

void slots_count_used(ptrdiff_t by) { atomic_fetch_add_explicit(&hk_pool.used, (size_t)by, memory_order_relaxed); }

/* The multiples of 2^order. */
static const uint32_t starts[ORDER_COUNT] = {~0u, 0x55555555u, 0x11111111u, 0x01010101u, 0x00010001u, 1u};

uint32_t pool_stretches(uint32_t mask, unsigned count, unsigned align) {
    hk_assert(count > 0 && count <= SLOTS);
    hk_assert(hk_is_pow2(align) && align <= SLOTS);
    return (uint32_t)hk_stretches64(mask, count) & starts[hk_log2_ceil(align)];
}

unsigned pool_largest_order(uint32_t mask) {
    unsigned order = 0;
    while (order < ORDER_COUNT - 1 && (mask &= mask >> (1u << order) & starts[order + 1]) != 0)
        order++;
    return order;
}
