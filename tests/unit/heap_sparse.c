/* SPDX-License-Identifier: MIT
 *
 * Whole free pages inside slabs in use: given back once the slab has rested, with every block still in its place and every
 * live one untouched.
 */
#include "heap/sparse.h"
#include "heap_places.h"

enum { CLS = HK_TINY_CLASSES - 1, SIZE = HK_TINY_MAX, BLOCKS = 64 * 40, KEEP = 16, DELAY = 400, ROUNDS = 20 };

static unsigned char *blocks[BLOCKS];
static heap_t *h;

static void fill(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i] == NULL)
            blocks[i] = magazine_alloc(h, CLS);
        memset(blocks[i], 1 + (int)(i % 255), SIZE);
    }
}

/* All but one of KEEP. */
static void thin_out(void) {
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % KEEP != 0) {
            release(blocks[i]);
            blocks[i] = NULL;
        }
    magazine_drop_all(h);
}

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

int main(void) {
    enum { MOST = BLOCKS * SIZE };
    h = start_heap();
    fill();
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
    /* A block that comes back makes its slab new. */
    release(blocks[0]);
    blocks[0] = NULL;
    magazine_drop_all(h);
    CHECK_EQ(rounds(20000), 0);
    CHECK(rounds(20000 + 2 * DELAY) > 0);
    all_in_place();
    fill();
    all_in_place();
    return CHECK_PASS;
}
