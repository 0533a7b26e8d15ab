/* SPDX-License-Identifier: MIT
 *
 * hak_aligned_calloc and hak_aligned_realloc: blocks lie at multiples, contents are kept, zeros are zeros, sized frees
 * find the sizes right, and long blocks are neither copied nor written where plain ones are not. Runs at each level:
 * HAKMEM_SAFE is the argument.
 */
#include "check.h"
#include "hakmem.h"

#include "core/panic.h"
#include "rooms.h"

#include <errno.h>

static unsigned level;

static bool lies_at(const void *block, size_t align) { return ((uintptr_t)block & (align - 1)) == 0; }

static void fill(char *block, size_t from, size_t to, size_t seed) {
    for (size_t i = from; i < to; i += 997)
        block[i] = (char)(i + seed);
}

static void holds(const char *block, size_t size, size_t seed) {
    for (size_t i = 0; i < size; i += 997)
        CHECK_SAY(block[i] == (char)(i + seed), "byte %zu of %zu changed", i, size);
}

static size_t some_size(uint64_t *random) {
    size_t least = (size_t)1 << next_random(random) % 22;
    return least + next_random(random) % least;
}

/* Up and down, from any block to any alignment. */
static void chains(void) {
    uint64_t random = 7;
    for (unsigned chain = 0; chain < 60; chain++) {
        size_t size = some_size(&random), align = 16;
        char *block = chain % 3 == 0 ? NULL : hak_malloc(size);
        size = block == NULL ? 0 : size;
        fill(block, 0, size, chain);
        for (unsigned step = 0; step < 20; step++) {
            const size_t next = some_size(&random);
            align = (size_t)8 << next_random(&random) % 14;
            block = hak_aligned_realloc(block, align, next);
            CHECK_SAY(block != NULL && lies_at(block, align), "%zu bytes at %zu", next, align);
            holds(block, hk_min(size, next), chain);
            if (next > size)
                fill(block, (size + 996) / 997 * 997, next, chain);
            size = next;
        }
        const uint64_t errors = hk_misuse_count();
        hak_free_aligned_sized(block, align, size);
        CHECK_SAY(hk_misuse_count() == errors, "size %zu at %zu", size, align);
    }
    CHECK_EQ(hak_check(), 0);
}

static void zeros(void) {
    uint64_t random = 9;
    for (unsigned i = 0; i < 300; i++) {
        const size_t size = some_size(&random), align = (size_t)8 << next_random(&random) % 18;
        char *block = hak_aligned_calloc(align, 1, size);
        CHECK(block != NULL && lies_at(block, align) && all_zeros(block, size));
        memset(block, 7, size);
        hak_free_aligned_sized(block, align, size);
    }
}

static size_t resident_bytes(void) {
    uint64_t value = 0;
    CHECK_EQ(hak_stat_read("resident", &value), 0);
    return (size_t)value;
}

/* A long one stays or moves with its pages; nothing is written to what is fresh. */
static void without_copies(void) {
    if (level > 1)
        return;
    char *block = hak_aligned_realloc(NULL, 64, 3 * HK_MIB), *same = hak_aligned_realloc(block, 64, 3 * HK_MIB + 70000);
    CHECK(same == block);
    CHECK(hak_aligned_realloc(block, 64, 3 * HK_MIB + 1) == block);
    hak_free(block);
    char *small = hak_aligned_realloc(NULL, 64, 640);
    CHECK(hak_aligned_realloc(small, 64, 600) == small && hak_aligned_realloc(small, 128, 640) != NULL);
    enum { MIBS = 64 };
    const size_t before = resident_bytes();
    char *fresh = hak_aligned_calloc(64, MIBS, HK_MIB);
    CHECK(fresh != NULL && fresh[0] == 0 && fresh[MIBS * HK_MIB - 1] == 0);
    CHECK(resident_bytes() < before + MIBS / 4 * HK_MIB);
    hak_free(fresh);
}

static void in_its_heap(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    char *block = hak_heap_aligned_alloc(heap, 256, 5000);
    fill(block, 0, 5000, 1);
    for (size_t size = 5000; size < 4 * HK_MIB; size *= 3) {
        block = hak_aligned_realloc(block, 256, size);
        CHECK(block != NULL && lies_at(block, 256) && hak_heap_of(block) == heap);
        holds(block, 5000, 1);
    }
    hak_heap_destroy(heap);
}

static void what_is_refused(void) {
    char *block = hak_malloc(100);
    strcpy(block, "kept");
    errno = 0;
    CHECK(hak_aligned_realloc(block, SIZE_MAX, 200) == NULL && errno == EINVAL);
    CHECK(hak_aligned_calloc(SIZE_MAX / 2 + 2, 1, 1) == NULL && errno == EINVAL);
    CHECK(hak_aligned_realloc(block, 64, SIZE_MAX - 10) == NULL && errno == ENOMEM && strcmp(block, "kept") == 0);
    errno = 0;
    CHECK(hak_aligned_calloc(64, SIZE_MAX / 2, 4) == NULL && errno == ENOMEM);
    block = hak_aligned_realloc(block, 64, 200);
    CHECK(lies_at(block, 64) && strcmp(block, "kept") == 0);
    CHECK(hak_aligned_realloc(block, 64, 0) == NULL);
    if (level == 0)
        return;
    const uint64_t errors = hk_misuse_count();
    CHECK(hak_aligned_realloc(block, 64, 300) == NULL && hk_misuse_count() == errors + 1);
    char here[64];
    CHECK(hak_aligned_realloc(here, 64, 300) == NULL && hk_misuse_count() == errors + 2);
}

int main(int count, char **arguments) {
    level = count > 1 ? (unsigned)atoi(arguments[1]) : 1;
    CHECK(setenv("HAKMEM_SAFE", count > 1 ? arguments[1] : "1", 1) == 0);
    CHECK(setenv("HAKMEM_ON_ERROR", "ignore", 1) == 0);
    in_child(chains);
    in_child(zeros);
    in_child(without_copies);
    in_child(in_its_heap);
    in_child(what_is_refused);
    return CHECK_PASS;
}
