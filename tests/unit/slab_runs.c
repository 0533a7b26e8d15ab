/* SPDX-License-Identifier: MIT
 *
 * Runs of free blocks: found one after the other, taken out of the slab and given back, against a naive search.
 */
#include "rooms.h"
#include "slab_blocks.h"

enum { OWNER = 5 };

static void *blocks[4096];

static bool is_set(const slab_t *slab, unsigned index) { return slab->free_bits[index / 64] >> (index % 64) & 1; }

static void every_run(const slab_t *slab) {
    unsigned from = 0, seen = 0;
    while (from < slab->block_count) {
        unsigned first = from, end;
        while (first < slab->block_count && !is_set(slab, first))
            first++;
        unsigned last = first;
        while (last < slab->block_count && is_set(slab, last))
            last++;
        CHECK_EQ(slab_next_stretch(slab, from, &end), first);
        CHECK(first == slab->block_count || end == last);
        seen += last - first;
        from = last + (last == first);
    }
    CHECK_EQ(seen, slab->free_count);
}

static void word_masks(void) {
    for (unsigned first = 0; first < 200; first += 7)
        for (unsigned end = first + 1; end < 260; end += 5)
            for (unsigned w = first / 64; w * 64 < end; w++) {
                uint64_t wanted = 0;
                for (unsigned bit = 0; bit < 64; bit++)
                    wanted |= (uint64_t)(w * 64 + bit >= first && w * 64 + bit < end) << bit;
                CHECK(slab_stretch_bits(w, first, end) == wanted);
            }
}

static void taken_and_back(slab_t *slab) {
    unsigned end, before = slab->free_count;
    for (unsigned first = slab_next_stretch(slab, 0, &end); first < slab->block_count;
         first = slab_next_stretch(slab, end, &end)) {
        unsigned run_end = end;
        slab_take_stretch(slab, first, run_end);
        CHECK_EQ(slab->free_count, before - (run_end - first));
        for (unsigned i = first; i < run_end; i++)
            CHECK(!is_set(slab, i));
        for (unsigned w = first / 64; w * 64 < run_end; w++)
            CHECK_EQ(slab_give(slab, w, slab_stretch_bits(w, first, run_end)), 0);
        CHECK_EQ(slab->free_count, before);
    }
    CHECK_EQ(slab_check(slab), 0);
}

static void at_random(unsigned cls) {
    uint64_t random = cls + 1;
    slab_t *slab = slab_open(cls, OWNER, true);
    CHECK(slab != NULL);
    every_run(slab);
    CHECK_EQ(take_blocks(slab, blocks + 4096, 4096), slab->block_count);
    every_run(slab);
    for (unsigned round = 0; round < 20; round++) {
        unsigned index = (unsigned)(next_random(&random) % slab->block_count);
        unsigned end = index + 1 + (unsigned)(next_random(&random) % (slab->block_count - index));
        for (unsigned w = index / 64; w * 64 < end; w++)
            (void)slab_give(slab, w, slab_stretch_bits(w, index, end) & ~slab->free_bits[w]);
        every_run(slab);
        taken_and_back(slab);
        if (slab->free_count > slab->block_count / 2)
            (void)take_blocks(slab, blocks + 4096, slab->free_count / 2);
    }
}

int main(void) {
    start_slab();
    word_masks();
    at_random(0);
    at_random(10);
    at_random(63);
    at_random(HK_CLASS_COUNT - 1);
    return CHECK_PASS;
}
