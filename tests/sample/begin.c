/* SPDX-License-Identifier: MIT
 *
 * A profile begins with little: starting one touches no table, the first sample a few pages. After hundreds of samples
 * more, of many sites, all are there: tables and the rules of the unwinder have outgrown what they began with. They are
 * so after a reset too, and a profile without a sample is whole. Its time ends with the sampling.
 */
#include "profile.h"

enum { KIB_OF_START = 12, KIB_OF_SAMPLE = 28, SITES = 32, BLOCKS_A_SITE = 20, SIZE = 1000, PAUSE_US = 20000 };

static void *blocks[SITES * BLOCKS_A_SITE];

/* Frames of `depth` calls, which no other depth has. */
PROFILE_SITE static void *deep(unsigned depth) {
    void *volatile block = depth == 0 ? malloc(SIZE) : deep(depth - 1);
    return block;
}

static void a_start(void) {
    const long before = test_anonymous_kib();
    CHECK_EQ(hak_profile_start((size_t)1 << 40), 0);
    free(deep(0));
    const long started = test_anonymous_kib() - before;
    if (started > KIB_OF_START)
        test_fail("a start touches %ld KiB", started);
}

static void a_profile_without_a_sample(void) {
    profile_image_t image = profile_take();
    CHECK_EQ(profile_header(&image)->samples, 0);
    CHECK_EQ(profile_sums_of(&image, 0).alloc_bytes, 0);
    profile_drop(&image);
}

static void the_first_sample(void) {
    CHECK_EQ(hak_profile_start(1), 0);
    const long before = test_anonymous_kib();
    blocks[0] = deep(0);
    const long sampled = test_anonymous_kib() - before;
    if (sampled > KIB_OF_SAMPLE)
        test_fail("the first sample touches %ld KiB", sampled);
    free(blocks[0]);
}

static void many_samples(void) {
    for (unsigned i = 0; i < SITES * BLOCKS_A_SITE; i++)
        blocks[i] = deep(i % SITES);
    profile_image_t image = profile_take();
    const profile_sums_t all = profile_sums_of(&image, (uintptr_t)deep);
    CHECK_EQ(all.sites, SITES);
    CHECK_EQ((long)all.live_objects, SITES * BLOCKS_A_SITE);
    CHECK_EQ((long)all.live_bytes, SITES * BLOCKS_A_SITE * SIZE);
    profile_drop(&image);
    for (unsigned i = 0; i < SITES * BLOCKS_A_SITE; i++)
        free(blocks[i]);
}

static uint64_t elapsed_us(void) {
    profile_image_t image = profile_take();
    const uint64_t us = profile_header(&image)->elapsed_us;
    profile_drop(&image);
    return us;
}

/* Neither an image nor a free is sampling. What lies between two times of sampling counts. */
static void its_time_ends_with_the_sampling(void) {
    hak_profile_reset();
    CHECK_EQ(hak_profile_start(1), 0);
    blocks[0] = deep(0);
    usleep(PAUSE_US);
    hak_profile_stop();
    const uint64_t stopped = elapsed_us();
    CHECK(stopped >= PAUSE_US);
    usleep(PAUSE_US);
    free(blocks[0]);
    CHECK_EQ(elapsed_us(), stopped);
    CHECK_EQ(hak_profile_start(1), 0);
    hak_profile_stop();
    CHECK(elapsed_us() >= stopped + PAUSE_US);
}

int main(void) {
    test_require_hakmem();
    for (unsigned i = 0; i < SITES; i++)
        free(deep(i));
    (void)test_anonymous_kib();
    a_start();
    the_first_sample();
    for (unsigned round = 0; round < 3; round++) {
        hak_profile_reset();
        many_samples();
    }
    hak_profile_stop();
    hak_profile_reset();
    a_profile_without_a_sample();
    its_time_ends_with_the_sampling();
    CHECK_HEAP();
    return TEST_PASS;
}
