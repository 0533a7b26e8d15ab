/* SPDX-License-Identifier: MIT
 *
 * A slab from open to close, of every class: each block once and in order, what is known of their past, slots back when
 * it is over.
 */
#include "core/counters.h"
#include "rooms.h"
#include "slab_blocks.h"
#include "superslab_totals.h"
#include "sys/sys.h"

enum { OWNER = 5 };

static void *blocks[4096];

static slab_t *open_slab(unsigned cls) {
    uint64_t opened_new = atomic_load(&hk_counters.slabs_new), reused = atomic_load(&hk_counters.slabs_reused);
    slab_t *slab = slab_open(cls, OWNER, true);
    CHECK(slab != NULL);
    CHECK_EQ(slab->free_count, hk_class_info[cls].block_count);
    CHECK_EQ(atomic_load(&slab->state), SLAB_OPEN);
    CHECK_EQ(atomic_load(&slab->owner), OWNER);
    CHECK(slab_is_empty(slab));
    CHECK_EQ(slab_check(slab), 0);
    CHECK_EQ(atomic_load(&hk_counters.slabs_new) - opened_new, slab->zeroed);
    CHECK_EQ(atomic_load(&hk_counters.slabs_reused) - reused, !slab->zeroed);
    return slab;
}

static void give(slab_t *slab, void *block) {
    unsigned index = class_block_index(&hk_classes[slab->cls], block);
    CHECK_EQ(slab_give(slab, index / 64, UINT64_C(1) << (index % 64)), 0);
}

static void close_slab(slab_t *slab) {
    slot_t slot = slab_slot(slab);
    slab_close(slab);
    CHECK_EQ(map_entry(slot), 0);
    CHECK_EQ(atomic_load(&slab->state), SLAB_CLOSED);
    CHECK_EQ(atomic_load(&slab->owner), HK_OWNER_NONE);
    CHECK_EQ(superslab_check(), 0);
}

/* The order in which a slab hands its blocks out: word by word from the one of first_block and round, in address order
 * within a word, that of first_block from there. */
static void hand_out_order(const slab_t *slab, unsigned order[4096]) {
    unsigned words = slab_word_count(slab), first = slab->first_block, at = 0;
    for (unsigned passed = 0; passed < words; passed++)
        for (unsigned bit = 0; bit < 64; bit++) {
            unsigned word = (first / 64 + passed) % words;
            unsigned index = word * 64 + (passed == 0 ? (first + bit) % 64 : bit);
            if (index < slab->block_count)
                order[at++] = index;
        }
    CHECK_EQ(at, slab->block_count);
}

static char *block_at(const slab_t *slab, unsigned index) {
    return slab_base(slab) + (size_t)index * hk_class_info[slab->cls].block_size;
}

static void whole(unsigned cls) {
    static unsigned order[4096];
    const size_class_info_t *info = &hk_class_info[cls];
    slab_t *slab = open_slab(cls);
    unsigned count = info->block_count;
    hand_out_order(slab, order);
    CHECK_EQ((uintptr_t)slab_base(slab) % ((size_t)info->slab_slots * HK_SLOT_SIZE), 0);
    CHECK_EQ(take_blocks(slab, blocks + 4096, 4096), count);
    CHECK_EQ(take_blocks(slab, blocks + 1, 1), 0);
    CHECK_EQ(slab->free_count, 0);
    CHECK_EQ(slab->peak_count, count);
    CHECK_EQ(slab_check(slab), 0);
    for (unsigned i = 0; i < count; i++) {
        char *block = blocks[4095 - i];
        CHECK(block == block_at(slab, order[i]));
        CHECK(slab_of(block, cls) == slab && slab_of(block + info->block_size - 1, cls) == slab);
        CHECK_EQ(map_lookup(block), OWNER << 8 | cls);
        CHECK(!slab_block_is_free(slab, order[i]));
        block[0] = block[info->block_size - 1] = 1;
    }
    for (unsigned i = 0; i < count; i += 2)
        give(slab, blocks[4095 - i]);
    CHECK_EQ(slab->free_count, (count + 1) / 2);
    CHECK_EQ(slab_check(slab), 0);
    /* Holes are filled in the same order. */
    unsigned want = count < 6 ? 2 : 3, got = take_blocks(slab, blocks + 2048, want);
    CHECK_EQ(got, want);
    for (unsigned i = 0; i < got; i++)
        CHECK(blocks[2047 - i] == block_at(slab, order[2 * i]));
    for (unsigned i = 0; i < got; i++)
        give(slab, blocks[2047 - i]);
    for (unsigned i = 1; i < count; i += 2)
        give(slab, block_at(slab, order[i]));
    CHECK(slab_is_empty(slab));
    close_slab(slab);
}

/* Blocks of a slab of few that were never handed out read as zeros, as long as the slots did when it was opened. */
static void past(void) {
    enum { CLS = HK_TINY_CLASSES - 1, SIZE = HK_TINY_MAX };
    unsigned order[4096];
    (void)superslab_purge(SIZE_MAX);
    slab_t *slab = open_slab(CLS);
    hand_out_order(slab, order);
    CHECK(slab->zeroed);
    block_past_t was;
    void *first = slab_take_one(slab, &was);
    CHECK(was == BLOCK_ZEROED && all_zeros(first, SIZE));
    memset(first, 1, SIZE);
    CHECK_EQ(take_blocks(slab, blocks + 10, 10), 10);
    CHECK_EQ(slab->peak_count, 11);
    CHECK_EQ(hk_popcount64(slab->handed_out), 11);
    give(slab, first);
    give(slab, blocks[0]);
    CHECK(slab_take_one(slab, &was) == first && was == BLOCK_USED);
    CHECK(slab_take_one(slab, &was) == blocks[0] && was == BLOCK_USED);
    void *next = slab_take_one(slab, &was);
    CHECK(next == block_at(slab, order[11]) && was == BLOCK_ZEROED && all_zeros(next, SIZE));
    for (unsigned i = 0; i < 12; i++)
        give(slab, block_at(slab, order[i]));
    CHECK_EQ(slab->peak_count, 12);
    CHECK_EQ(slab_check(slab), 0);
    close_slab(slab);
    CHECK(superslab_dirty_bytes() >= HK_SLOT_SIZE);
    slab_t *again = open_slab(CLS);
    CHECK(again == slab && !again->zeroed);
    void *block = slab_take_one(again, &was);
    CHECK(was == BLOCK_USED);
    give(again, block);
    close_slab(again);
    /* One of which no block was ever handed out leaves its slots as clean as they were. */
    (void)superslab_purge(SIZE_MAX);
    slab = open_slab(CLS);
    CHECK(slab->zeroed);
    close_slab(slab);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    /* Of many blocks it is not known. */
    slab = open_slab(0);
    block = slab_take_one(slab, &was);
    CHECK(was == BLOCK_USED);
    give(slab, block);
    close_slab(slab);
}

static void doubled(void) {
    slab_t *slab = open_slab(0);
    CHECK_EQ(take_blocks(slab, blocks + 4096, 4096), 4096);
    CHECK_EQ(slab_give(slab, 1, 0xff), 0);
    CHECK_EQ(slab_give(slab, 1, 0x3c0), 0xc0);
    CHECK_EQ(slab->free_count, 10);
    CHECK(slab_block_is_free(slab, 64 + 9) && !slab_block_is_free(slab, 64 + 10));
    CHECK_EQ(slab_check(slab), 0);
    CHECK_EQ(slab_give(slab, 1, UINT64_MAX << 10), 0);
    for (unsigned word = 0; word < 64; word++)
        CHECK(slab_give(slab, word, UINT64_MAX) == (word == 1 ? UINT64_MAX : 0));
    CHECK(slab_is_empty(slab));
    CHECK_EQ(slab_check(slab), 0);
    close_slab(slab);
}

/* A live bit that stayed set is gone with the next slab there. */
static void stale_bits(void) {
    slab_t *slab = open_slab(3);
    char *at = slab_base(slab);
    for (size_t offset = 0; offset < HK_SLOT_SIZE; offset += 208)
        map_set_live(map_granule(at + offset));
    close_slab(slab);
    slab_t *again = open_slab(15);
    CHECK(again == slab);
    for (size_t offset = 0; offset < HK_SLOT_SIZE; offset += 16)
        CHECK(!map_is_live(map_granule(at + offset)));
    close_slab(again);
}

static void owners_and_use(void) {
    unsigned cls = HK_CLASS_COUNT - 1;
    slab_t *slab = open_slab(cls);
    slab_set_owner(slab, 9);
    for (unsigned i = 0; i < hk_class_info[cls].slab_slots; i++)
        CHECK_EQ(map_entry(slab_slot(slab) + i), 9 << 8 | cls);
    CHECK_EQ(slab_check(slab), 0);
    /* All out and all back, twice: it counts as used in full once. */
    for (unsigned round = 0; round < 2; round++) {
        void *out[64];
        CHECK_EQ(take_blocks(slab, out + slab->block_count, slab->block_count), slab->block_count);
        CHECK(slab->used_in_full);
        CHECK_EQ(slab_give(slab, 0, hk_low_mask64(slab->block_count)), 0);
    }
    close_slab(slab);
}

/* Opening and closing for ever takes no more memory. */
static void steady(void) {
    size_t areas = 0;
    for (unsigned i = 0; i < 200; i++) {
        slab_t *a = open_slab(0), *b = open_slab(20), *c = open_slab(HK_CLASS_COUNT - 9);
        if (i == 5)
            areas = region_area_bytes() + region_claimed_bytes();
        close_slab(a);
        close_slab(c);
        close_slab(b);
    }
    CHECK_EQ(region_area_bytes() + region_claimed_bytes(), areas);
}

/* Opens a slab and uses a block of it. */
static slab_t *open_used(unsigned cls) {
    slab_t *slab = open_slab(cls);
    void *block;
    CHECK_EQ(take_blocks(slab, &block + 1, 1), 1);
    give(slab, block);
    return slab;
}

/* Slabs of blocks of pages open where one of their class was closed, unless the place serves something else by now, or
 * its pages have gone back. */
static void same_place(void) {
    unsigned cls = class_of(20000), other = class_of(24000);
    slab_t *a = open_used(cls), *b = open_used(other), *c = open_used(cls);
    CHECK_EQ(hk_class_info[cls].slab_slots, hk_class_info[other].slab_slots);
    close_slab(a);
    close_slab(b);
    close_slab(c);
    CHECK(open_slab(other) == b);
    CHECK(open_slab(cls) == c);
    slab_t *elsewhere = open_used(other); /* nothing else of its class was closed: it takes the free place */
    CHECK(elsewhere == a);
    CHECK(open_slab(cls) != a);
    close_slab(elsewhere);
    close_slab(b);
    (void)superslab_purge(SIZE_MAX);
    slab_t *clean = open_slab(other);
    CHECK(clean->zeroed);
    close_slab(clean);
}

int main(void) {
    start_slab();
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        whole(cls);
    past();
    doubled();
    stale_bits();
    owners_and_use();
    steady();
    superslab_totals_t totals = superslab_totals();
    CHECK_EQ(totals.free_slots, totals.superslab_count * HK_SLOTS_PER_SUPERSLAB);
    same_place();
    return CHECK_PASS;
}
