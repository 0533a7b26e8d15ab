/* SPDX-License-Identifier: MIT
 *
 * Remote frees: who announces and who pushes, what a drain takes and what it leaves, bits posted twice, and what is refused.
 */
#include "rooms.h"
#include "slab_blocks.h"

enum { OWNER = 5 };

static void *blocks[4096];

static slab_t *full_slab(unsigned cls) {
    bool reused;
    slab_t *slab = slab_open(cls, OWNER, &reused);
    CHECK(slab != NULL);
    CHECK_EQ(take_blocks(slab, blocks + 4096, 4096), slab->block_count);
    return slab;
}

static void one_word(void) {
    bool push;
    unsigned twice = 0;
    slab_t *slab = full_slab(HK_TINY_CLASSES - 1);
    CHECK_EQ(slab_word_count(slab), 1);
    CHECK_EQ(slab_post(slab, 0, 0x0f, &push), 0);
    CHECK(push);
    CHECK(slab_block_is_free(slab, 3) && !slab_block_is_free(slab, 4));
    CHECK_EQ(slab->free_count, 0);
    CHECK_EQ(slab_post(slab, 0, 0xf0, &push), 0);
    CHECK(!push);
    CHECK_EQ(slab_post(slab, 0, 0x110, &push), 0x10); /* posted before */
    CHECK(!push);
    CHECK_EQ(slab_check(slab), 0);
    CHECK_EQ(slab_drain(slab, &twice), 9);
    CHECK_EQ(twice, 0);
    CHECK_EQ(slab->free_count, 9);
    CHECK_EQ(slab->free_bits[0], 0x1ff);
    CHECK_EQ(slab_drain(slab, &twice), 0);
    /* Announced anew after the drain. */
    CHECK_EQ(slab_post(slab, 0, 0x201, &push), 0);
    CHECK(push);
    CHECK(slab_check(slab) > 0); /* block 0 is free on both sides: SLAB-2 */
    (void)slab_drain(slab, &twice);
    CHECK_EQ(twice, 1);
    CHECK_EQ(slab->free_count, 10);
    CHECK_EQ(slab_check(slab), 0);
    CHECK_EQ(slab_give(slab, 0, UINT64_MAX << 10), 0);
    slab_close(slab);
}

static void many_words(void) {
    bool push;
    unsigned twice = 0;
    slab_t *slab = full_slab(0);
    CHECK_EQ(slab_word_count(slab), 64);
    for (unsigned word = 64; word-- > 0;) {
        CHECK_EQ(slab_post(slab, word, UINT64_C(1) << word, &push), 0);
        CHECK_EQ(push, word == 63);
    }
    CHECK(atomic_load(&slab->summary) == UINT64_MAX);
    CHECK_EQ(slab_drain(slab, &twice), 64);
    CHECK_EQ(atomic_load(&slab->summary), 0);
    CHECK_EQ(slab_check(slab), 0);
    /* Once round from the word where the slab begins. */
    CHECK_EQ(take_blocks(slab, blocks + 64, 64), 64);
    for (unsigned i = 0; i < 64; i++)
        CHECK(blocks[63 - i] == slab_base(slab) + (size_t)((slab->first_block / 64 + i) % 64) * 65 * 16);
    for (unsigned word = 0; word < 64; word++)
        CHECK_EQ(slab_post(slab, word, UINT64_MAX, &push), 0);
    CHECK_EQ(slab_drain(slab, &twice), 4096);
    CHECK_EQ(twice, 0);
    CHECK(slab_is_empty(slab));
    slab_close(slab);
}

/* A poster between its two steps: the word is posted and not announced. The drain leaves it, so the slab cannot become
 * empty; the poster's second step announces it. */
static void between_steps(void) {
    bool push;
    unsigned twice = 0;
    slab_t *slab = full_slab(32);
    (void)atomic_fetch_or(&slab->remote_bits[1], 6);
    CHECK_EQ(slab_post(slab, 0, 1, &push), 0);
    CHECK(push);
    CHECK_EQ(slab_post(slab, 1, 8, &push), 0); /* the word is not empty: the first poster announces it */
    CHECK(!push);
    CHECK_EQ(slab_drain(slab, &twice), 1);
    CHECK_EQ(atomic_load(&slab->remote_bits[1]), 14);
    CHECK(!slab_is_empty(slab));
    CHECK_EQ(atomic_fetch_or(&slab->summary, 2), 0);
    CHECK_EQ(slab_drain(slab, &twice), 3);
    CHECK_EQ(slab->free_count, 4);
    CHECK_EQ(twice, 0);
    CHECK_EQ(slab_check(slab), 0);
}

static void refused(void) {
    bool push;
    slab_t *slab = full_slab(HK_TINY_CLASSES - 1);
    CHECK_EQ(slab_post(slab, 1, 5, &push), 5);
    CHECK(!push);
    CHECK_EQ(slab_give(slab, 0, UINT64_MAX), 0);
    slab_close(slab);
    CHECK_EQ(slab_post(slab, 0, 5, &push), 5);
    CHECK(!push);
    atomic_store(&slab->inline_remote, 7);
    atomic_store(&slab->summary, 1);
    slab_discard_remote(slab);
    CHECK_EQ(atomic_load(&slab->inline_remote), 0);
    CHECK_EQ(atomic_load(&slab->summary), 0);
}

int main(void) {
    start_slab();
    one_word();
    many_words();
    between_steps();
    refused();
    return CHECK_PASS;
}
