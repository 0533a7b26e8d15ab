/* SPDX-License-Identifier: MIT
 *
 * Large blocks that grow where they are, allocated while the thread was sampled less often than when they grow: how
 * likely they were sampled before is not known then, so they are drawn anew. Each is sampled nearly for certain with
 * what it has now, and the profile knows all of them.
 */
#include "front/calls.h"
#include "front/front.h"
#include "heap_places.h"
#include "sample/chance.h"

#include <stdlib.h>

enum { BLOCKS = 400, BEFORE = 6 << 20, AFTER = 11 << 20, DENSE_LOG2 = 19, SPARSE_LOG2 = 24 };

static heap_t *h;

/* As pace.h would for a thread in haste. */
static void set_interval(unsigned log2) {
    h->draw.interval_log2 = (uint8_t)log2;
    h->draw.left = h->draw.distance = chance_distance(&h->draw.random, log2);
    heap_run_out(h);
}

static double live_mib(void) { return (double)(hk_profile.header.live_bytes >> PROFILE_BYTES_SHIFT) / (1 << 20); }

int main(void) {
    h = start_heap();
    sample_start(UINT64_C(1) << DENSE_LOG2, SAMPLE_FOR_PROGRAM);
    heap_run_out(h);
    front_free(front_malloc(BEFORE)); /* it learns of the profile */
    hk_profile.header.longest_log2 = SPARSE_LOG2;
    unsigned stayed = 0;
    double live = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        set_interval(SPARSE_LOG2);
        void *block = front_malloc(BEFORE);
        set_interval(DENSE_LOG2);
        void *grown = front_realloc(block, AFTER);
        CHECK(grown != NULL);
        stayed += grown == block;
        live += live_mib();
        front_free(grown);
        CHECK_EQ(hk_profile.header.live_bytes, 0);
    }
    const double truth = (double)((uint64_t)BLOCKS * AFTER >> 20);
    if (live < 0.99 * truth || live > 1.01 * truth)
        test_fail("%.0f MiB were live by the profile, not %.0f", live, truth);
    CHECK(stayed > BLOCKS / 2);
    return CHECK_PASS;
}
