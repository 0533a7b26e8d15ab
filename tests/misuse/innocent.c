/* SPDX-License-Identifier: MIT
 *
 * Programs that are right, or wrong in ways that must not hurt the heap: nothing may be reported at the default level.
 *
 *   innocent stale      bytes left over in a freed block are written back into live blocks
 *   innocent scribble   whole free blocks are overwritten at random, live ones to the end of their usable size; then a
 *                       million allocations must neither overlap nor fail, and the heap must be whole
 *   innocent sized      every size freed by free_sized with the size asked for
 *   innocent usable     usable size of each block written in full, realloc'ed to it, freed by free_sized with it
 */
#include "testing.h"

enum { BLOCKS = 20000 };

static unsigned char *blocks[BLOCKS];
static size_t sizes[BLOCKS];

/* A struct copied from freed memory, or memory reused without writing it: the old bytes are in a live block again. */
static void stale(void) {
    static unsigned char copy[1024];
    for (size_t size = 16; size <= 1024; size += 16) {
        unsigned char *p = (unsigned char *)malloc(size);
        free(p);
        memcpy(copy, test_opaque(p), size);
        for (unsigned i = 0; i < 3000; i++)
            blocks[i] = (unsigned char *)malloc(size);
        for (unsigned i = 0; i < 3000; i++)
            if (blocks[i] == p)
                memcpy(blocks[i], copy, size);
        for (unsigned i = 0; i < 3000; i++)
            free(blocks[i]);
        for (unsigned i = 0; i < 3000; i++)
            memcpy(test_opaque(blocks[i]), copy, size);
    }
    CHECK_HEAP();
}

static void scribble(void) {
    uint64_t random = 12345;
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            sizes[i] = test_random_log_size(&random, i % 16 == 0 ? 40000 : 2000);
            blocks[i] = (unsigned char *)malloc(sizes[i]);
            size_t usable = malloc_usable_size(blocks[i]);
            memset(blocks[i], 0xff, usable);
            sizes[i] = usable;
        }
        for (unsigned i = 0; i < BLOCKS; i += 2)
            free(blocks[i]);
        for (unsigned i = 0; i < BLOCKS; i += 2) {
            /* A page of the block may be gone already: only what the allocator still maps can be written. */
            unsigned char state;
            void *page = (void *)((uintptr_t)blocks[i] & ~(uintptr_t)4095);
            if (sizes[i] <= 2000 && mincore(page, 1, &state) == 0)
                test_fill(test_opaque(blocks[i]), sizes[i], test_random(&random));
        }
        for (unsigned i = 1; i < BLOCKS; i += 2)
            free(blocks[i]);
    }
    for (unsigned i = 0; i < 1000000; i++) {
        unsigned slot = i % BLOCKS;
        if (i >= BLOCKS) {
            CHECK(test_holds(blocks[slot], sizes[slot], slot));
            free(blocks[slot]);
        }
        sizes[slot] = test_random_log_size(&random, 2000);
        blocks[slot] = (unsigned char *)malloc(sizes[slot]);
        CHECK(blocks[slot] != NULL);
        test_fill(blocks[slot], sizes[slot], slot);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK(test_holds(blocks[i], sizes[i], i));
    CHECK_HEAP();
}

static void sized(void) {
    void (*sized_free)(void *, size_t);
    TEST_SYMBOL(sized_free, "free_sized");
    if (sized_free == NULL)
        test_skip("no free_sized in this process");
    for (size_t size = 0; size < 300000; size += size < 3000 ? 1 : size / 97)
        for (unsigned i = 0; i < 3; i++)
            sized_free(malloc(size), size);
    for (size_t size = 300000; size < 40 * TEST_MIB; size += size / 7)
        sized_free(malloc(size), size);
    CHECK_HEAP();
}

static void usable(void) {
    for (size_t size = 1; size < 4 * TEST_MIB; size += size < 3000 ? 1 : size / 97) {
        unsigned char *p = (unsigned char *)malloc(size);
        size_t all = malloc_usable_size(p);
        CHECK_SAY(all >= size, "usable %zu of %zu", all, size);
        memset(p, 0xa5, all);
        unsigned char *q = (unsigned char *)realloc(p, all);
        CHECK(q != NULL && malloc_usable_size(q) >= all);
        memset(q, 0x5a, malloc_usable_size(q));
        free(q);
    }
    CHECK_HEAP();
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(120);
    const char *what = argc == 2 ? argv[1] : "";
    if (strcmp(what, "stale") == 0)
        stale();
    else if (strcmp(what, "scribble") == 0)
        scribble();
    else if (strcmp(what, "sized") == 0)
        sized();
    else if (strcmp(what, "usable") == 0)
        usable();
    else
        test_fail("innocent: stale, scribble, sized or usable\n");
    return TEST_PASS;
}
