/* SPDX-License-Identifier: MIT
 *
 * Remote frees: who announces and who pushes, what a drain takes and what it leaves, bits posted twice, and what is refused.
 */
#include "map/meta.h"
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
    (void)atomic_fetch_or(slab_remote_word(slab, 1), 6);
    CHECK_EQ(slab_post(slab, 0, 1, &push), 0);
    CHECK(push);
    CHECK_EQ(slab_post(slab, 1, 8, &push), 0); /* the word is not empty: the first poster announces it */
    CHECK(!push);
    CHECK_EQ(slab_drain(slab, &twice), 1);
    CHECK_EQ(atomic_load(slab_remote_word(slab, 1)), 14);
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
    atomic_store(slab_remote_word(slab, 0), 7);
    atomic_store(&slab->summary, 1);
    slab_discard_remote(slab);
    CHECK_EQ(atomic_load(slab_remote_word(slab, 0)), 0);
    CHECK_EQ(atomic_load(&slab->summary), 0);
}

static void close_full(slab_t *slab) {
    for (unsigned word = 0; word < slab_word_count(slab); word++)
        CHECK_EQ(slab_give(slab, word, slab_run_bits(word, 0, slab->block_count)), 0);
    slab_close(slab);
}

/* A double free that posts while the slab is closed has its word's address already: what it writes there later must reach nothing but
 * remote bits of that slot. Every piece of metadata that is handed out from the close on is looked at. */
static void late_post(void) {
    enum { PIECES = 64, SIZES = 5, WORDS = 64 };
    static uint64_t *pieces[SIZES][PIECES];
    slab_t *slab = full_slab(0);
    _Atomic uint64_t *words[WORDS];
    for (unsigned w = 0; w < WORDS; w++)
        words[w] = slab_remote_word(slab, w);
    close_full(slab);
    for (unsigned size = 0; size < SIZES; size++)
        for (unsigned i = 0; i < PIECES; i++) {
            CHECK((pieces[size][i] = meta_alloc((size_t)64 << size)) != NULL);
            memset(pieces[size][i], 0, (size_t)64 << size);
        }
    for (unsigned w = 0; w < WORDS; w++)
        (void)atomic_fetch_or(words[w], UINT64_MAX);
    for (unsigned size = 0; size < SIZES; size++)
        for (unsigned i = 0; i < PIECES; i++) {
            for (unsigned word = 0; word < 8U << size; word++)
                CHECK_EQ(pieces[size][i][word], 0);
            meta_free(pieces[size][i], (size_t)64 << size);
        }
}

/* The slot is open for other blocks, of fewer words, when the late post writes and announces itself. */
static void late_post_to_another(void) {
    bool push;
    unsigned twice = 0;
    slab_t *slab = full_slab(0);
    _Atomic uint64_t *last = slab_remote_word(slab, 63), *second = slab_remote_word(slab, 1);
    close_full(slab);
    CHECK_EQ(atomic_fetch_or(second, 1), 0); /* between its two steps when the slot is opened: forgotten */
    slab_t *other = full_slab(32);
    CHECK(other == slab);
    CHECK_EQ(slab_check(slab), 0);
    CHECK_EQ(atomic_fetch_or(last, 5), 0);
    CHECK_EQ(atomic_fetch_or(&slab->summary, UINT64_C(1) << 63 | 2), 0);
    CHECK_EQ(slab_post(slab, 1, 6, &push), 0);
    CHECK(!push); /* who posted late pushes */
    CHECK_EQ(slab_drain(slab, &twice), 2);
    CHECK_EQ(twice, 2);
    CHECK_EQ(slab->free_count, 2);
    CHECK_EQ(slab_check(slab), 0);
    /* Opened while it is announced and on a list: stays announced, so that nobody pushes it twice. */
    CHECK_EQ(slab_give(slab, 1, 0), 0);
    slab->free_bits[1] &= ~UINT64_C(6);
    slab->free_count = 0;
    close_full(slab);
    CHECK_EQ(atomic_fetch_or(&slab->summary, 1), 0);
    CHECK(full_slab(0) == slab);
    CHECK_EQ(slab_post(slab, 0, 1, &push), 0);
    CHECK(!push);
    CHECK_EQ(slab_drain(slab, &twice), 1);
    CHECK_EQ(slab_check(slab), 0);
}

int main(void) {
    start_slab();
    one_word();
    many_words();
    between_steps();
    refused();
    late_post();
    late_post_to_another();
    return CHECK_PASS;
}
