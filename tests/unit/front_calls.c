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
#include <pthread.h>

static heap_t *h;
static uint64_t misuses; /* that were made on purpose */

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

/* A long block that grows by small steps is moved at each quarter, until it lies alone; one that grows by more gets
 * what it asks for. */
static void small_steps(void) {
    enum { FIRST = HEAP_ROOM_FROM, LAST = 200000, STEP = 8 };
    unsigned moves = 0;
    char *block = front_malloc(FIRST);
    memset(block, 1, FIRST);
    for (size_t size = FIRST + STEP; size <= LAST; size += STEP) {
        char *before = block;
        block = front_realloc(before, size);
        moves += block != before;
        memset(block + size - STEP, (int)(size / STEP % 251), STEP);
    }
    for (size_t size = FIRST + STEP; size <= LAST; size += STEP)
        CHECK_EQ((unsigned char)block[size - 1], size / STEP % 251);
    CHECK(moves >= 4 && moves <= 9); /* 1.25^4 == 2.4, up to 20 KB, and each class would be 37; then in place */
    front_free(block);
    for (size_t size = 208; size < 100000; size += size / 2) {
        block = front_realloc(front_malloc(size), size + size / 4);
        size_t exact = hk_class_info[class_of(size + size / 4)].block_size;
        CHECK(front_usable_size(block) <= exact + exact / 3); /* it may be borrowed */
        front_free_sized(block, size + size / 4, "free_sized");
    }
    CHECK_EQ(hk_misuse_count(), 0);
}

static size_t blocks_of_another[64];

static void *allocate_for_another(void *blocks) {
    for (unsigned i = 0; i < 64; i++) {
        blocks_of_another[i] = (size_t)(i + 1) * (i + 1) * (i + 1);
        ((void **)blocks)[i] = front_malloc(blocks_of_another[i]);
    }
    return NULL;
}

/* The first blocks of a long class have runs of their own. */
static bool is_live(void *block) {
    return map_is_live(map_granule(block)) || (map_lookup(block) == HK_MAP_RUN_HEAD && large_is_live(block));
}

/* Of another thread: with its size, and with one that is too small, which is reported and does no harm. */
static void sized_of_another(void) {
    void *blocks[64];
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate_for_another, blocks) == 0 && pthread_join(thread, NULL) == 0);
    for (unsigned i = 0; i < 64; i++) {
        CHECK(is_live(blocks[i]));
        front_free_sized(blocks[i], blocks_of_another[i], "free_sized");
        CHECK(!is_live(blocks[i]));
    }
    CHECK_EQ(hk_misuse_count(), 0);
    CHECK(pthread_create(&thread, NULL, allocate_for_another, blocks) == 0 && pthread_join(thread, NULL) == 0);
    for (unsigned i = 7; i < 64; i++) {
        front_free_sized(blocks[i], blocks_of_another[i] / 3, "free_sized");
        CHECK_EQ(hk_misuse_count(), i - 6);
        CHECK(!is_live(blocks[i]));
    }
    misuses = hk_misuse_count();
    for (unsigned i = 0; i < 7; i++)
        front_free(blocks[i]);
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
        for (size_t size = 0; size <= 300000; size += size < 40 ? 1 : size < 1100 ? 53 : size / 5)
            for (unsigned way = 0; way < 3; way++) {
                if (way == 1)
                    magazine_drop_all(h);
                if (way == 2)
                    h->front.countdown = 0;
                void *block = front_aligned(align, size);
                CHECK(block != NULL && (uintptr_t)block % hk_max(align, 16) == 0);
                CHECK(front_usable_size(block) >= size);
                if (align > 16 && size > 0 && class_of_aligned(size, align) < HK_CLASS_COUNT &&
                    map_lookup(block) != HK_MAP_RUN_HEAD) /* alone */
                    CHECK_EQ(class_at(block), class_of_aligned(size, align));
                front_free_aligned_sized(block, align, size, "free_aligned_sized");
            }
    CHECK(front_aligned(64, SIZE_MAX - 10) == NULL);
    for (size_t align = 3; align < 5000; align += align / 3) /* no powers of two */
        for (size_t size = 1; size < 5000; size += size < 40 ? 1 : size / 3)
            front_free_aligned_sized(front_memalign(align, size), align, size, "free_aligned_sized");
    CHECK_EQ(hk_misuse_count(), misuses);
}

static void kept_whole(void) {
    void *block = front_malloc(1000);
    heap_free_sized(block, HK_ALIGNMENT, 16, "free_sized");
    CHECK_EQ(hk_misuse_count(), misuses + 1);
    CHECK(!map_is_live(map_granule(block))); /* the size is not needed */
    block = front_malloc(1000);
    errno = 3;
    CHECK(heap_keep_whole(block, 5) == block);
    CHECK_EQ(errno, 5);
    heap_free_sized(block, HK_ALIGNMENT, 16, "free_sized");
    CHECK_EQ(hk_misuse_count(), misuses + 1);
    CHECK(!map_is_live(map_granule(block)));
}

int main(void) {
    CHECK(setenv("HAKMEM_ON_ERROR", "report", 1) == 0);
    h = start_heap();
    in_place_or_not();
    small_steps();
    sized_of_another();
    zeros();
    aligned();
    kept_whole();
    all_is_well();
    return CHECK_PASS;
}
