/* SPDX-License-Identifier: MIT
 *
 * At levels 2 and 3: a write to memory that was freed long ago, when it has left every queue and its slots may serve
 * anything. What is handed out next is zeros, and where the write was seen it is reported. And what a heap's blocks
 * were written beyond, at their common end.
 */
#include "testing.h"

#include "hakmem.h"

enum { LOOKS = 3000, BLOCKS_MAX = 4000, MARK = 7 };

static unsigned long long errors(void) {
    uint64_t count;
    CHECK(hak_stat_read("errors", &count) == 0);
    return count;
}

/* Whether one of the next blocks of `size` bytes was at `stale`. Each of them is zeros. */
static bool comes_back(hak_heap_t *heap, size_t size, const char *stale) {
    static char *blocks[LOOKS];
    bool came = false;
    size_t taken = 0, keep = TEST_GIB / 4 / size;
    for (size_t i = 0; i < LOOKS && !came; i++) {
        char *block = test_opaque(heap != NULL ? hak_heap_calloc(heap, 1, size) : calloc(1, size));
        CHECK(block != NULL);
        came = block <= stale && stale < block + size;
        for (size_t at = 0; at < size; at += came ? 1 : 4096)
            CHECK(block[at] == 0);
        if (taken < keep)
            blocks[taken++] = block;
        else
            free(block);
    }
    while (taken > 0)
        free(blocks[--taken]);
    return came;
}

/* Blocks of slabs, or long ones, that all went. */
static char *of_freed(size_t size, size_t count) {
    static char *blocks[BLOCKS_MAX];
    for (size_t i = 0; i < count; i++) {
        blocks[i] = test_opaque(malloc(size));
        memset(blocks[i], 1, size);
    }
    char *stale = blocks[count / 3];
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    return stale + size / 2;
}

/* The place that the pages of a long block have left. */
static char *of_moved(size_t size) {
    char *block = test_opaque(malloc(size)), *behind = test_opaque(malloc(size));
    memset(block, 1, size);
    memset(behind, 1, size);
    char *stale = test_opaque(block), *moved = test_opaque(realloc(block, 4 * size));
    CHECK(moved != NULL);
    return stale + size / 2;
}

static char *of_heap(hak_heap_t *heap, size_t size, bool reset) {
    char *block = test_opaque(hak_heap_malloc(heap, size));
    memset(block, 1, size);
    char *stale = test_opaque(block);
    if (reset)
        hak_heap_reset(heap);
    else
        free(block);
    return stale + size / 2;
}

static unsigned cases, came_back, reported;

static void see(hak_heap_t *heap, char *stale, size_t size) {
    unsigned long long before = errors();
    *(volatile char *)stale = MARK;
    bool came = comes_back(heap, size, stale);
    cases++;
    came_back += came;
    reported += errors() > before; /* not when the page went back to the kernel meanwhile */
}

/* calloc knows each byte of a block of up to 8 KiB. */
static void before_calloc(size_t size) {
    for (size_t at = 3; at < size; at += size / 7) {
        char *stale = of_freed(size, 40) - size / 2 + at;
        unsigned long long before = errors();
        *(volatile char *)stale = MARK;
        CHECK(!comes_back(NULL, size, stale) || errors() == before + 1);
    }
}

static void beyond_a_heaps_block(size_t size, bool ends) {
    hak_heap_t *heap = hak_heap_new(NULL);
    char *block = test_opaque(hak_heap_malloc(heap, size));
    unsigned long long before = errors();
    memset(block + malloc_usable_size(block), MARK, 8);
    if (ends)
        hak_heap_destroy(heap);
    else
        hak_heap_reset(heap);
    CHECK(errors() == before + 1);
}

int main(void) {
    static const size_t served[] = {20000, 100000, 300000};
    see(NULL, of_moved(6000000), 100000); /* first: those slots never served */
    see(NULL, of_moved(20000000), 20000);
    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++) {
        see(NULL, of_freed(500000, 60), served[i]);
        see(NULL, of_freed(3000, BLOCKS_MAX), served[i]);
    }
    see(NULL, of_moved(6000000), 300000);
    hak_heap_t *heap = hak_heap_new(NULL);
    see(heap, of_heap(heap, 300000, false), 300000);
    see(heap, of_heap(heap, 300000, true), 300000);
    see(heap, of_heap(heap, 5000000, false), 5000000);
    before_calloc(1500);
    before_calloc(8190);
    test_say("%u of %u came back, %u reported\n", came_back, cases, reported);
    CHECK(reported > 0);
    beyond_a_heaps_block(100, false);
    beyond_a_heaps_block(100, true);
    beyond_a_heaps_block(30000, true);
    return 0;
}
