/* SPDX-License-Identifier: MIT
 *
 * Large blocks of all sizes pass between threads while memory is given back all the time: each page of a block holds
 * what was written there until the block is freed, also after it grew or shrank, and zeroed memory is zero.
 */
#include "testing.h"

#include <stdatomic.h>

enum { THREADS = 4, BOXES = 24, MILLISECONDS = 1500, PAGE = 4096, LONG = 7, SHORT = 2 };

typedef struct block {
    size_t size;
    uint64_t mark;
} block_t;

static _Atomic(block_t *) boxes[BOXES];
static atomic_bool stop;
static unsigned doublings; /* of 64 KiB: the lengths */

static uint64_t *page_of(block_t *block, size_t at) { return (uint64_t *)(void *)((char *)block + at); }

/* A mark in every page but the first, which holds the size. */
static void mark_from(block_t *block, size_t from) {
    for (size_t at = from; at + sizeof block->mark <= block->size; at += PAGE)
        *page_of(block, at) = block->mark ^ at;
}

static void verify(block_t *block, size_t size) {
    for (size_t at = PAGE; at + sizeof block->mark <= size; at += PAGE)
        CHECK_SAY(*page_of(block, at) == (block->mark ^ at), "page %zu of %zu bytes at %p changed", at / PAGE, size,
                  (void *)block);
}

/* From 64 KiB on, the short ones more often. */
static size_t some_size(uint64_t *random) {
    size_t least = 64 * TEST_KIB << test_random_below(random, doublings);
    return least + test_random_below(random, least);
}

static block_t *make(uint64_t *random) {
    size_t size = some_size(random);
    bool zero = test_random_below(random, 4) == 0;
    block_t *block = (block_t *)(zero ? hak_calloc(1, size) : hak_malloc(size));
    CHECK(block != NULL);
    for (size_t at = 0; zero && at + sizeof block->mark <= size; at += PAGE)
        CHECK_SAY(*page_of(block, at) == 0, "page %zu of %zu zeroed bytes is not zero", at / PAGE, size);
    block->size = size;
    block->mark = *random;
    mark_from(block, PAGE);
    return block;
}

static block_t *resize(block_t *block, uint64_t *random) {
    size_t before = block->size, after = some_size(random);
    block = (block_t *)hak_realloc(block, after);
    CHECK(block != NULL && block->size == before);
    verify(block, before < after ? before : after);
    block->size = after;
    mark_from(block, PAGE);
    return block;
}

static void *run(void *argument) {
    uint64_t random = (uintptr_t)argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        block_t *mine = make(&random);
        if (test_random_below(&random, 4) == 0)
            mine = resize(mine, &random);
        block_t *old = atomic_exchange(&boxes[test_random_below(&random, BOXES)], mine);
        if (old == NULL)
            continue;
        verify(old, old->size);
        hak_free(old);
    }
    return NULL;
}

static void pass_blocks(unsigned lengths) {
    pthread_t threads[THREADS];
    doublings = lengths;
    atomic_store(&stop, false);
    for (unsigned i = 0; i < THREADS; i++)
        threads[i] = test_thread(run, (void *)(uintptr_t)(i + 1));
    for (unsigned i = 0; i < MILLISECONDS / 50; i++) {
        test_sleep_us(50000);
        if (i % 4 == 0)
            (void)hak_trim();
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        test_join(threads[i]);
    for (unsigned i = 0; i < BOXES; i++)
        hak_free(atomic_exchange(&boxes[i], NULL));
    CHECK(hak_check() == 0);
}

int main(void) {
    test_alarm(120);
    pass_blocks(LONG);
    pass_blocks(SHORT); /* few enough bytes for the slots to go back to the heaps that took them */
    return TEST_PASS;
}
