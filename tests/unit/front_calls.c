/* SPDX-License-Identifier: MIT
 *
 * The fast ways of realloc, calloc and aligned allocation: what stays in place and what moves, zeros over what was used
 * before, every small alignment, and what becomes of a block that could not shrink since memory was out.
 */
#include "core/panic.h"
#include "front/calls.h"
#include "front/front.h"
#include "slow/blocks.h"
#include "heap_places.h"

#include <errno.h>

static heap_t *h;

static unsigned class_at(const void *block) { return map_lookup(block) & HK_MAP_CLASS_MAX; }

static void in_place_or_not(void) {
    for (size_t size = 1; size <= 4096; size += 61) {
        char *block = front_realloc(NULL, size);
        CHECK(block != NULL);
        size_t usable = front_usable_size(block);
        memset(block, (int)(size % 251), usable);
        /* As far as the block reaches, and down to three quarters of it or half. */
        CHECK(front_realloc(block, usable) == block);
        size_t least = usable <= HK_TINY_MAX ? usable - usable / 4 : usable / 2;
        CHECK(front_realloc(block, least) == block);
        CHECK_EQ(front_usable_size(block), usable);
        char *larger = front_realloc(block, usable + 1);
        CHECK(larger != NULL && larger != block && front_usable_size(larger) > usable);
        for (size_t i = 0; i < usable; i++)
            CHECK_EQ((unsigned char)larger[i], size % 251);
        char *smaller = front_realloc(larger, 1);
        CHECK(smaller != larger && front_usable_size(smaller) == 16 && (unsigned char)smaller[0] == size % 251);
        CHECK(front_realloc(smaller, 0) == NULL);
    }
}

static void zeros(void) {
    enum { COUNT = 300 };
    static char *blocks[COUNT];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            size_t size = i * 5;
            blocks[i] = front_calloc(i, 5);
            CHECK(blocks[i] != NULL && front_usable_size(blocks[i]) >= size);
            for (size_t k = 0; k < size; k++)
                CHECK_EQ(blocks[i][k], 0);
            memset(blocks[i], 0x5a, front_usable_size(blocks[i]));
        }
        for (unsigned i = 0; i < COUNT; i++)
            front_free(blocks[i]);
    }
    errno = 0;
    CHECK(front_calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
}

/* Also when the magazine is empty, and when the countdown runs out just then. */
static void aligned(void) {
    for (size_t align = 1; align <= 8192; align *= 2)
        for (size_t size = 0; size <= 1100; size += size < 40 ? 1 : 53)
            for (unsigned way = 0; way < 3; way++) {
                if (way == 1)
                    magazine_drop_all(h);
                if (way == 2)
                    h->front.countdown = 0;
                void *block = front_aligned(align, size);
                CHECK(block != NULL && (uintptr_t)block % hk_max(align, 16) == 0);
                CHECK(front_usable_size(block) >= size);
                if (align > 16 && size > 0)
                    CHECK_EQ(class_at(block), class_of_aligned(size, align));
                front_free_aligned_sized(block, align, size, "free_aligned_sized");
            }
    CHECK(front_aligned(64, SIZE_MAX - 10) == NULL);
    CHECK_EQ(hk_misuse_count(), 0);
}

static void kept_whole(void) {
    void *block = front_malloc(1000);
    heap_free_sized(block, HK_ALIGNMENT, 16, "free_sized", NULL);
    CHECK_EQ(hk_misuse_count(), 1);
    CHECK(!map_is_live(map_granule(block))); /* the size is not needed */
    block = front_malloc(1000);
    errno = 3;
    CHECK(heap_keep_whole(block, 5) == block);
    CHECK_EQ(errno, 5);
    heap_free_sized(block, HK_ALIGNMENT, 16, "free_sized", NULL);
    CHECK_EQ(hk_misuse_count(), 1);
    CHECK(!map_is_live(map_granule(block)));
}

int main(void) {
    CHECK(setenv("HAKMEM_ON_ERROR", "report", 1) == 0);
    h = start_heap();
    in_place_or_not();
    zeros();
    aligned();
    kept_whole();
    all_is_well();
    return CHECK_PASS;
}
