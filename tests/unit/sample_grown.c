/* SPDX-License-Identifier: MIT
 *
 * Large blocks that grow where they are, allocated while the thread was sampled less often than when they grow: how
 * likely they were sampled before is not known then, so they are drawn anew. Each is sampled nearly for certain with
 * what it has now, and the profile knows all of them. So it does of blocks alone that grow by small steps: at each of
 * them a part of what they get had lain in the class that they had before.
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

static void check_live(double live, double truth) {
    if (live < 0.99 * truth || live > 1.01 * truth)
        test_fail("%.0f MiB were live by the profile, not %.0f", live, truth);
}

static void grown_after_sparse_samples(void) {
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
    check_live(live, (double)((uint64_t)BLOCKS * AFTER >> 20));
    CHECK(stayed > BLOCKS / 2);
}

static void alone_by_small_steps(void) {
    enum { FIRST = 17000, STEP = 1000, STEPS = 238, ALONE_LOG2 = 15 };
    h = start_heap();
    sample_start(UINT64_C(1) << ALONE_LOG2, SAMPLE_FOR_PROGRAM);
    heap_run_out(h);
    front_free(front_malloc(HK_MIB)); /* it learns of the profile, and has slots */
    unsigned stayed = 0;
    double live = 0, truth = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        void *block = front_malloc(FIRST + i);
        for (unsigned step = 1; step <= STEPS; step++) {
            void *grown = front_realloc(block, FIRST + i + step * STEP);
            stayed += grown == block;
            block = grown;
        }
        live += live_mib();
        truth += (double)(FIRST + i + STEPS * STEP) / (1 << 20);
        front_free(block);
    }
    check_live(live, truth);
    CHECK(stayed > BLOCKS * STEPS / 10 * 9);
}

int main(void) {
    in_child(grown_after_sparse_samples);
    in_child(alone_by_small_steps);
    return CHECK_PASS;
}
