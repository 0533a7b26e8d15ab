/* SPDX-License-Identifier: MIT
 *
 * Whole pages inside slabs go back when they have rested, by a clock by hand: not before the delay, not while the slab
 * is in use, once and not again; live blocks keep their contents, and the free ones can be had again.
 */
#include "check.h"
#include "core/options.h"
#include "heap/magazine.h"
#include "heap/search.h"
#include "report/check.h"
#include "slow/malloc.h"
#include "start/start.h"
#include "upkeep/sparse.h"

enum { COUNT = 20000, SIZE = 496, DELAY = 400, KEEP_ONE_IN = 100 };

static unsigned char *blocks[COUNT];
static uint64_t now = 1000;

static sparse_result_t sparse_round(uint64_t now_ms, uint64_t delay_ms) {
    return sparse_round_within(now_ms, delay_ms, 1);
}

static size_t round_at(uint64_t ms) {
    now = ms;
    return sparse_round(now, DELAY).purged_bytes;
}

static void drop(void *block) {
    heap_t *h = heap_current();
    (void)map_clear_live(map_granule(block));
    magazine_free(h, class_of(SIZE), block);
}

static void fill(void) {
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = magazine_alloc(heap_current(), class_of(SIZE));
        CHECK(blocks[i] != NULL);
        memset(blocks[i], (int)(i % 251), SIZE);
    }
}

static void thin_out(void) {
    for (unsigned i = 0; i < COUNT; i++)
        if (i % KEEP_ONE_IN != 0) {
            drop(blocks[i]);
            blocks[i] = NULL;
        }
    magazine_drop_all(heap_current());
}

static void check_survivors(void) {
    for (unsigned i = 0; i < COUNT; i++)
        for (unsigned k = 0; blocks[i] != NULL && k < SIZE; k++)
            CHECK_EQ(blocks[i][k], i % 251);
}

int main(void) {
    hk_option_set("BACKGROUND", "off");
    hk_option_set("PURGE_DELAY", "-1");
    CHECK(heap_current() != NULL);
    fill();
    CHECK_EQ(round_at(1000), 0);
    thin_out();
    /* Seen for the first time here: the delay begins. */
    CHECK_EQ(round_at(2000), 0);
    CHECK_EQ(round_at(2000 + DELAY / 2), 0);
    CHECK(sparse_round(now, DELAY).waiting_bytes > (size_t)COUNT * SIZE / 2);
    size_t bytes = round_at(2000 + DELAY + DELAY / 4);
    CHECK(bytes > (size_t)COUNT * SIZE * 3 / 4);
    CHECK_EQ(round_at(now + 10 * DELAY), 0);
    CHECK_EQ(hk_check_all(), 0);
    check_survivors();
    /* Another free wakes one slab only. */
    drop(blocks[0]);
    blocks[0] = NULL;
    magazine_drop_all(heap_current());
    CHECK_EQ(round_at(20000), 0);
    bytes = round_at(20000 + 2 * DELAY);
    CHECK(bytes > 0 && bytes <= HK_SLOT_SIZE);
    for (unsigned i = 0; i < COUNT; i++)
        if (blocks[i] != NULL)
            drop(blocks[i]);
    fill();
    check_survivors();
    CHECK_EQ(hk_check_all(), 0);
    return CHECK_PASS;
}
