/* SPDX-License-Identifier: MIT
 *
 * A sampled block that gets another size where it is, by realloc or hak_expand, has that size in the profile. One of
 * any size that is freed is no longer there.
 */
#include "profile.h"

static const profile_sample_t *sample_at(const profile_image_t *image, const void *block) {
    const profile_sample_t *sample;
    for (uint64_t i = 1; (sample = profile_entry(image, PROFILE_SAMPLES, i)) != NULL; i++)
        if (sample->address == (uintptr_t)block)
            return sample;
    return NULL;
}

static void check_size(const void *block, size_t size) {
    profile_image_t image = profile_take();
    const profile_sample_t *sample = sample_at(&image, block);
    CHECK(sample != NULL);
    CHECK_EQ(sample->size, size);
    /* The seal of a hardened block is of its slack, and nothing that the program may use. */
    const size_t usable = hak_malloc_usable_size(block);
    CHECK(sample->size + sample->slack == usable || (getenv("HAKMEM_SAFE") != NULL && usable <= size + sample->slack));
    profile_drop(&image);
}

static void by_realloc(size_t size, size_t again) {
    char *block = hak_malloc(size), *same;
    check_size(block, size);
    const uintptr_t before = (uintptr_t)block;
    same = hak_realloc(block, again);
    CHECK(same != NULL);
    if ((uintptr_t)same != before)
        printf("%zu to %zu: moved\n", size, again);
    check_size(same, again);
    hak_free(same);
}

static void by_expand(size_t size, size_t again) {
    char *block = hak_malloc(size);
    check_size(block, size);
    if (hak_expand(block, again) != 0)
        check_size(block, again);
    else
        printf("%zu to %zu: does not stay\n", size, again);
    hak_free(block);
}

static void by_free(size_t size, bool once) {
    void *block = hak_malloc(size);
    check_size(block, size);
    if (once)
        hak_free(block);
    else
        hak_free(hak_realloc(block, size + 1));
    profile_image_t image = profile_take();
    CHECK(sample_at(&image, block) == NULL);
    profile_drop(&image);
}

int main(void) {
    static const size_t sizes[] = {0, 1, 1000, 100 * TEST_KIB, TEST_MIB, TEST_GIB + 1};
    CHECK_EQ(hak_profile_start(1), 0);
    for (unsigned i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++)
        by_free(sizes[i / 2], i % 2 == 0);
    for (int i = 0; i < 3; i++) {
        by_realloc(100, 110);
        by_realloc(110, 100);
        by_realloc(20000, 20010);
        by_realloc(112, 113); /* to a block with room for more */
        by_realloc(20480, 20500);
        by_realloc(TEST_MIB, 3 * TEST_MIB);
        by_expand(100, 110);
        by_expand(TEST_MIB, TEST_MIB + 100 * TEST_KIB);
        by_expand(3 * TEST_MIB, TEST_MIB);
        by_expand(TEST_GIB + 1, TEST_GIB + TEST_MIB);
    }
    hak_heap_t *heap = hak_heap_new(NULL);
    char *block = hak_heap_malloc(heap, TEST_MIB);
    CHECK(block != NULL && (hak_expand(block, 2 * TEST_MIB) == 0 || hak_heap_of(block) == heap));
    profile_image_t image = profile_take();
    CHECK(sample_at(&image, block) == NULL);
    profile_drop(&image);
    hak_heap_destroy(heap);
    CHECK_HEAP();
    return 0;
}
