/* SPDX-License-Identifier: MIT
 *
 * What operator new hands out is sampled as what malloc hands out: a block that the fast path has not got at hand is
 * charged once. All blocks are kept, so that hardly one is at hand. They are not touched: they take no memory.
 *
 * The estimate of a sum of COUNT blocks, each sampled with the chance P, has the variance COUNT (1 - P) / P: a standard
 * error of 1.5 %.
 */
#include "profile.h"

enum { COUNT = 4000, SIZE = 200000, INTERVAL = 256 << 10, OFF_PERCENT = 12 };

extern void *_Znwm(size_t size);

static void *blocks[COUNT];

PROFILE_SITE static void *by_new(void) {
    void *volatile block = _Znwm(SIZE);
    return block;
}

int main(void) {
    test_require_hakmem();
    CHECK_EQ(hak_profile_start(INTERVAL), 0);
    for (unsigned i = 0; i < COUNT; i++)
        blocks[i] = by_new();
    profile_image_t image = profile_take();
    const profile_sums_t sums = profile_sums_of(&image, (uintptr_t)by_new);
    test_say("%.0f blocks by new, %d in truth\n", sums.live_objects, COUNT);
    CHECK(sums.live_objects > COUNT * (100 - OFF_PERCENT) / 100 &&
          sums.live_objects < COUNT * (100 + OFF_PERCENT) / 100);
    profile_drop(&image);
    for (unsigned i = 0; i < COUNT; i++)
        free(blocks[i]);
    return TEST_PASS;
}
