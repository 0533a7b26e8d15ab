/* SPDX-License-Identifier: MIT
 *
 * superslab_totals.h: free slots (dirty or not) and superslabs in use.
 */
#ifndef HK_TEST_SUPERSLAB_TOTALS_H
#define HK_TEST_SUPERSLAB_TOTALS_H

#include "superslab/superslab.h"

typedef struct superslab_totals {
    size_t superslab_count;
    size_t free_slots;
    size_t dirty_slots;
} superslab_totals_t;

static inline superslab_totals_t superslab_totals(void) {
    hk_lock(&hk_superslab_lock);
    superslab_totals_t totals = {pool_count(&hk_pool.superslabs), pool_count(&hk_pool.free),
                                 pool_count(&hk_pool.dirty)};
    hk_unlock(&hk_superslab_lock);
    return totals;
}

#endif
