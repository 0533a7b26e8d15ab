/* SPDX-License-Identifier: MIT
 *
 * The first few blocks of a class come out of a slightly larger one that has some at hand: not too many, not much
 * larger, and sized frees know of it.
 */
#include "heap_places.h"

enum { SMALL = 400, SMALL_CLASS = SMALL / 16 - 1, LARGER = 448, LARGER_CLASS = LARGER / 16 - 1, BORROWED = 12 };

static void within_a_third(void) {
    heap_t *h = start_heap();
    void *larger = heap_malloc_slow(LARGER);
    CHECK_EQ(heap_usable_size(larger, NULL), LARGER);
    void *borrowed = heap_malloc_slow(SMALL);
    CHECK_EQ(heap_usable_size(borrowed, NULL), LARGER);
    CHECK_EQ(places_of(SMALL_CLASS).total, 0);
    CHECK_EQ(h->class_stats[SMALL_CLASS].borrowed, 1);
    heap_free_sized(borrowed, HK_ALIGNMENT, SMALL, "free_sized", NULL);
    CHECK_EQ(live_blocks(LARGER_CLASS), 1);
    /* Half as large is too small. */
    void *small = heap_malloc_slow(SMALL / 2 + 8);
    CHECK_EQ(heap_usable_size(small, NULL), SMALL / 2 + 8);
}

static void not_for_long(void) {
    heap_t *h = start_heap();
    void *larger[64];
    for (unsigned i = 0; i < 64; i++)
        larger[i] = heap_malloc_slow(LARGER);
    for (unsigned i = 0; i < 64; i++)
        release(larger[i]);
    CHECK(bin_count(h, LARGER_CLASS) > BORROWED);
    for (unsigned i = 0; i < BORROWED; i++)
        CHECK_EQ(heap_usable_size(heap_malloc_slow(SMALL), NULL), LARGER);
    void *own = heap_malloc_slow(SMALL);
    CHECK_EQ(heap_usable_size(own, NULL), SMALL);
    CHECK_EQ(live_blocks(LARGER_CLASS), BORROWED);
    CHECK_EQ(live_blocks(SMALL_CLASS), 1);
    all_is_well();
}

/* The larger class has nothing at hand: none is opened for the loan. */
static void only_what_is_there(void) {
    heap_t *h = start_heap();
    CHECK_EQ(bin_count(h, LARGER_CLASS), 0);
    CHECK_EQ(heap_usable_size(heap_malloc_slow(SMALL), NULL), SMALL);
    CHECK_EQ(places_of(LARGER_CLASS).total, 0);
}

int main(void) {
    in_child(within_a_third);
    in_child(not_for_long);
    in_child(only_what_is_there);
    return CHECK_PASS;
}
