/* SPDX-License-Identifier: MIT
 *
 * Many live blocks, each of them sampled: the tables stay within their bound, the interval grows, and the estimates
 * stay right. When the blocks are freed nothing is live any more, and the peak is what was.
 */
#include "profile.h"

enum { BLOCKS = 400000, SIZE = 64, LARGE = 2000000, LARGE_BLOCKS = 10 };

PROFILE_SITE static void *small(void) {
    void *volatile block = malloc(SIZE);
    return block;
}
PROFILE_SITE static void *large(void) {
    void *volatile block = malloc(LARGE);
    return block;
}

static void *blocks[BLOCKS], *large_blocks[LARGE_BLOCKS];

static void near(const char *what, double is, double wanted, double share) {
    if (is < wanted * (1 - share) || is > wanted * (1 + share))
        test_fail("%s: %.0f, not %.0f", what, is, wanted);
}

int main(void) {
    test_require_hakmem();
    CHECK_EQ(hak_profile_start(1), 0);
    for (int i = 0; i < LARGE_BLOCKS; i++)
        large_blocks[i] = large();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = small();
    profile_image_t image = profile_take();
    CHECK(profile_header(&image)->thinnings > 0);
    CHECK(profile_header(&image)->interval_log2 > 0);
    CHECK_EQ(profile_header(&image)->lost, 0);
    CHECK(profile_live_samples(&image) * sizeof(profile_sample_t) <= 8 * TEST_MIB);
    profile_sums_t sums = profile_sums_of(&image, (uintptr_t)small);
    near("blocks allocated", sums.alloc_objects, BLOCKS, 0.02);
    near("bytes live", sums.live_bytes, (double)BLOCKS * (double)SIZE, 0.05);
    near("large bytes live", profile_sums_of(&image, (uintptr_t)large).live_bytes, (double)LARGE * (double)LARGE_BLOCKS,
         0.01);
    profile_drop(&image);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (int i = 0; i < LARGE_BLOCKS; i++)
        free(large_blocks[i]);
    image = profile_take();
    CHECK_EQ(profile_sums_of(&image, (uintptr_t)small).live_bytes, 0);
    CHECK_EQ(profile_sums_of(&image, (uintptr_t)large).live_bytes, 0);
    CHECK_EQ(profile_live_samples(&image), 0);
    near("peak", profile_sums_of(&image, (uintptr_t)small).peak_bytes, (double)BLOCKS * (double)SIZE, 0.08);
    profile_drop(&image);
    CHECK_HEAP();
    return TEST_PASS;
}
