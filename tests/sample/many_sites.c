/* SPDX-License-Identifier: MIT
 *
 * As many sites as a large program has, a few blocks of each, all of them sampled: none loses its stack.
 */
#include "profile.h"

enum { SITES = 10000, BLOCKS_A_SITE = 5, BITS = 14 };

typedef void *allocate_t(unsigned site, unsigned bits);

PROFILE_SITE static void *odd(unsigned site, unsigned bits);

/* A way down for each number. */
PROFILE_SITE static void *even(unsigned site, unsigned bits) {
    allocate_t *const next = (site & 1) != 0 ? odd : even;
    void *volatile block = bits == 0 ? malloc(40) : next(site >> 1, bits - 1);
    return block;
}

PROFILE_SITE static void *odd(unsigned site, unsigned bits) {
    allocate_t *const next = (site & 1) != 0 ? odd : even;
    void *volatile block = bits == 0 ? malloc(40) : next(site >> 1, bits - 1);
    return block;
}

int main(void) {
    test_require_hakmem();
    CHECK_EQ(hak_profile_start(1), 0);
    for (unsigned i = 0; i < SITES * BLOCKS_A_SITE; i++)
        CHECK(even(i % SITES, BITS) != NULL);
    profile_image_t image = profile_take();
    const profile_site_t *no_room = (const profile_site_t *)profile_entry(&image, PROFILE_SITES, 1);
    CHECK(no_room != NULL);
    CHECK_EQ(no_room->alloc_samples, 0);
    profile_sums_t sums = profile_sums_of(&image, (uintptr_t)even);
    CHECK(sums.sites >= SITES);
    CHECK_EQ((long)sums.live_objects, SITES * BLOCKS_A_SITE);
    profile_drop(&image);
    return TEST_PASS;
}
