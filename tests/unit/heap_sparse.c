/* SPDX-License-Identifier: MIT
 *
 * Whole free pages inside slabs in use: given back once the slab has rested, with every block still in its place and
 * every live one untouched.
 */
#include "upkeep/sparse.h"
#include "heap_places.h"
#include "superslab_totals.h"
#include "sys/sys.h"

enum { CLS = HK_TINY_CLASSES - 1, SIZE = HK_TINY_MAX, BLOCKS = 64 * 40, KEEP = 16, DELAY = 400, ROUNDS = 20 };

static unsigned char *blocks[BLOCKS];
static heap_t *h;

static sparse_result_t sparse_round(uint64_t now_ms, uint64_t delay_ms) {
    return sparse_round_within(now_ms, delay_ms, 1);
}

static void fill(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i] == NULL)
            blocks[i] = magazine_alloc(h, CLS);
        memset(blocks[i], 1 + (int)(i % 255), SIZE);
    }
}

/* All but one of `keep`. */
static void thin_to(unsigned keep) {
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % keep != 0) {
            release(blocks[i]);
            blocks[i] = NULL;
        }
    magazine_drop_all(h);
}

static void thin_out(void) { thin_to(KEEP); }

static void all_in_place(void) {
    size_t live = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        live += blocks[i] != NULL;
        for (unsigned k = 0; blocks[i] != NULL && k < SIZE; k++)
            CHECK_EQ(blocks[i][k], 1 + i % 255);
    }
    CHECK_EQ(live_blocks(CLS), live);
    all_is_well();
}

static size_t rounds(uint64_t now_ms) {
    size_t bytes = 0;
    for (unsigned i = 0; i < ROUNDS; i++)
        bytes += sparse_round(now_ms, DELAY).purged_bytes;
    return bytes;
}

/* Somebody reserves what comes next of the window, so that the heap goes on far behind. Returns how many superslabs
 * that is. */
static size_t step_over(void) {
    release(magazine_alloc(h, CLS));
    size_t from = region_frontier(), count = hk_min(hk_window.superslab_max / 16, 1u << 19);
    CHECK(superslab_totals().superslab_count > 0);
    CHECK_EQ(sys_map_none_at(region_superslab_address(from), count << HK_SUPERSLAB_SHIFT), 0);
    return count;
}

/* A round is as good as without the hole: it looks at what is in use, on both sides. */
static void look_behind(size_t hole) {
    enum { MOST = BLOCKS * SIZE };
    uint64_t now = 100000;
    thin_out();
    CHECK(region_frontier() > hole);
    size_t used = superslab_totals().superslab_count, seen = 0;
    for (size_t index = region_next_used(0), last = 0; index != 0;
         last = index, index = region_next_used(index + 1), seen++)
        CHECK(index > last);
    CHECK_EQ(seen, used);
    for (unsigned i = 0; i < ROUNDS; i++) {
        sparse_result_t found = sparse_round(now, DELAY);
        CHECK_EQ(found.looked_at_bytes, used << HK_SUPERSLAB_SHIFT);
        CHECK(found.waiting_bytes > MOST / 2);
    }
    size_t bytes = sparse_round(now + 2 * DELAY, DELAY).purged_bytes;
    CHECK(bytes > MOST / 2 && bytes < MOST);
    all_in_place();
    fill();
}

int main(void) {
    enum { MOST = BLOCKS * SIZE };
    h = start_heap();
    size_t hole = step_over();
    fill();
    look_behind(hole);
    CHECK_EQ(sparse_trim(), 0); /* nothing is free */
    thin_out();
    size_t bytes = sparse_trim();
    CHECK(bytes > MOST / 2 && bytes < MOST);
    all_in_place();
    CHECK_EQ(sparse_trim(), 0); /* once */
    fill();
    all_in_place();
    /* By the clock: not before the slabs have rested. */
    thin_out();
    CHECK_EQ(rounds(10000), 0);
    CHECK_EQ(rounds(10000 + DELAY / 8), 0);
    bytes = rounds(10000 + 2 * DELAY);
    CHECK(bytes > MOST / 2 && bytes < MOST);
    all_in_place();
    CHECK_EQ(rounds(10000 + 4 * DELAY), 0);
    /* A block that comes back makes its slab new; what went before does not count again. */
    release(blocks[0]);
    blocks[0] = NULL;
    magazine_drop_all(h);
    CHECK_EQ(rounds(20000), 0);
    bytes = rounds(20000 + 2 * DELAY);
    CHECK(bytes > 0 && bytes <= 2 * sys_page_size());
    all_in_place();
    fill();
    all_in_place();
    /* Holes that end in the middle of a page. */
    thin_to(KEEP - 5);
    CHECK(sparse_trim() > 0);
    all_in_place();
    fill();
    all_in_place();
    /* The region has handed it out, and the map does not cover it yet. */
    while (region_alloc(1, 1) * HK_SLOTS_PER_SUPERSLAB < map_count())
        continue;
    CHECK_EQ(sparse_trim(), 0);
    return CHECK_PASS;
}
