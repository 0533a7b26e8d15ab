/* SPDX-License-Identifier: MIT
 *
 * The first few blocks of a class come out of a slightly larger one that has some at hand: not too many, not much
 * larger, and sized frees know of it.
 */
#include "heap/explicit.h"
#include "heap/runs.h"
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
    heap_free_sized(borrowed, HK_ALIGNMENT, SMALL, "free_sized");
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

static heap_t *make(const char *name, size_t limit) {
    int error = 0;
    heap_t *h = explicit_make(name, limit, &error);
    CHECK(h != NULL);
    return h;
}

/* Heaps of the program's borrow too, but no block that is not aligned as was asked. */
static void aligned_loans(void) {
    block_past_t past;
    (void)start_heap();
    heap_t *h = make("aligned", 0);
    CHECK(explicit_take(h, 4, HK_ALIGNMENT, NULL, &past) != NULL); /* 80 bytes */
    for (unsigned i = 0; i < 8; i++)
        CHECK((uintptr_t)explicit_take(h, 3, 64, NULL, &past) % 64 == 0);
}

/* What is asked for beside a block is for its heap alone; a limit can be used to the last byte. */
static void of_the_same_heap(void) {
    block_past_t past;
    (void)start_heap();
    heap_t *one = make("one", HK_SLOT_SIZE), *other = make("other", 0);
    void *block = explicit_take(one, 3, HK_ALIGNMENT, NULL, &past);
    CHECK(block != NULL);
    CHECK(explicit_take(other, 3, HK_ALIGNMENT, block, &past) == NULL);
    CHECK(explicit_take(one, 3, HK_ALIGNMENT, block, &past) != NULL);
    CHECK(!runs_fit(one, 1));
    CHECK(runs_fit(other, SIZE_MAX));
}

int main(void) {
    in_child(within_a_third);
    in_child(aligned_loans);
    in_child(of_the_same_heap);
    in_child(not_for_long);
    in_child(only_what_is_there);
    return CHECK_PASS;
}
