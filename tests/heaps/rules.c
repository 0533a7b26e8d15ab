/* SPDX-License-Identifier: MIT
 *
 * The rules of heaps that a program makes, as hakmem.h has them: blocks of every size and kind, any thread, what goes
 * with a heap and what stays, limits, names, visits, the child of a fork. Runs at each level.
 */
#include "testing.h"

#include <sys/wait.h>

enum { SIZES = 40 };

/* Of every kind: tiny, mid, large, above 1 GiB. */
static const size_t sizes[] = {0,    1,     16,     17,     100,    1000,         1024,        1025,
                               4096, 30000, 100000, 262144, 262145, 5 * TEST_MIB, TEST_GIB + 1};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };

static hak_heap_stats_t stats_of(hak_heap_t *heap) {
    hak_heap_stats_t stats = {.struct_size = sizeof stats};
    CHECK_EQ(hak_heap_stats_get(heap, &stats), 0);
    return stats;
}

static char *take(hak_heap_t *heap, size_t size) {
    char *block = hak_heap_malloc(heap, size);
    CHECK(block != NULL && (uintptr_t)block % 16 == 0 && hak_malloc_usable_size(block) >= size);
    CHECK(hak_heap_of(block) == heap);
    if (size > 0)
        block[0] = block[size - 1] = 0x5a;
    return block;
}

static void every_kind(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    CHECK(heap != NULL);
    char *blocks[SIZE_COUNT];
    for (unsigned round = 0; round < 30; round++) {
        size_t live = 0;
        for (unsigned i = 0; i < SIZE_COUNT; i++) {
            blocks[i] = take(heap, sizes[i]);
            live += sizes[i];
        }
        hak_heap_stats_t stats = stats_of(heap);
        CHECK(stats.live_blocks == SIZE_COUNT && stats.live >= live && stats.taken >= stats.live && stats.limit == 0);
        CHECK_EQ(stats.allocs, (round + 1) * SIZE_COUNT);
        for (unsigned i = 0; i < SIZE_COUNT; i++) {
            CHECK(sizes[i] == 0 || (blocks[i][0] == 0x5a && blocks[i][sizes[i] - 1] == 0x5a));
            if (i % 3 == 0)
                hak_free(blocks[i]);
            else if (i % 3 == 1)
                hak_free_sized(blocks[i], sizes[i]);
            else
                CHECK(hak_realloc(blocks[i], 0) == NULL);
            CHECK(hak_heap_of(blocks[i]) == NULL);
        }
        stats = stats_of(heap);
        CHECK(stats.live_blocks == 0 && stats.live == 0 && stats.peak_taken >= live);
    }
    hak_heap_destroy(heap);
    CHECK(hak_heap_of(blocks) == NULL && hak_heap_of(NULL) == NULL);
    char *ordinary = hak_malloc(100);
    CHECK(hak_heap_of(ordinary) == NULL);
    hak_free(ordinary);
}

static void zeros_and_alignment(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SIZE_COUNT - 1; i++) {
            char *block = hak_heap_calloc(heap, sizes[i], 1);
            CHECK(block != NULL && test_is_zero(block, sizes[i]));
            memset(block, 0x33, sizes[i]);
            for (size_t align = 1; align <= 65536; align *= 4) {
                block = hak_heap_aligned_alloc(heap, align, sizes[i]);
                CHECK(block != NULL && (uintptr_t)block % align == 0 && hak_heap_of(block) == heap);
                memset(block, 0x44, sizes[i]);
                if (align % 16 == 0)
                    hak_free_aligned_sized(block, align, sizes[i]);
            }
        }
        hak_heap_reset(heap);
    }
    errno = 0;
    CHECK(hak_heap_calloc(heap, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    CHECK(hak_heap_malloc(heap, SIZE_MAX) == NULL && errno == ENOMEM);
    CHECK(hak_heap_aligned_alloc(heap, SIZE_MAX, 10) == NULL && errno == EINVAL);
    hak_heap_destroy(heap);
}

/* A block stays in its heap, or comes to the one that is named. */
static void reallocs(void) {
    hak_heap_t *one = hak_heap_new(NULL), *other = hak_heap_new(NULL);
    uint64_t random = 5;
    char *block = NULL;
    size_t size = 0;
    for (unsigned i = 0; i < 3000; i++) {
        size_t wanted = test_random_log_size(&random, i % 50 == 0 ? 30 * TEST_MIB : 300000);
        hak_heap_t *heap = i % 3 == 0 ? other : one;
        char *moved = i % 3 == 2 && block != NULL ? hak_realloc(block, wanted) : hak_heap_realloc(heap, block, wanted);
        CHECK(moved != NULL && (hak_heap_of(moved) == (i % 3 == 2 ? one : heap)));
        CHECK(size == 0 || wanted == 0 || moved[0] == (char)i);
        block = moved;
        size = wanted;
        memset(block, (int)(i + 1), size);
    }
    CHECK_EQ(stats_of(one).live_blocks + stats_of(other).live_blocks, 1);
    CHECK(hak_heap_realloc(one, block, 0) == NULL);
    block = hak_heap_realloc(one, hak_malloc(100), 200); /* an ordinary one comes over */
    CHECK(hak_heap_of(block) == one);
    CHECK(hak_heap_realloc(one, block, SIZE_MAX) == NULL);
    char *huge = take(one, TEST_GIB + 1);
    huge = hak_heap_realloc(one, huge, 2 * TEST_GIB);
    CHECK(huge != NULL && huge[0] == 0x5a && hak_heap_of(huge) == one);
    for (size = 1; size < 20 * TEST_MIB; size *= 3) {
        block = take(one, size);
        CHECK(hak_realloc(block, size) == block);
        hak_free(block);
    }
    hak_heap_destroy(one);
    hak_heap_destroy(other);
    CHECK_HEAP();
}

static void reset_and_destroy(void) {
    hak_heap_t *heap = hak_heap_new(NULL), *stays = hak_heap_new(NULL);
    char *kept = take(stays, 1000);
    for (unsigned round = 0; round < 5; round++) {
        size_t usable = 0;
        for (unsigned i = 0; i < 2000; i++)
            usable += hak_malloc_usable_size(take(heap, sizes[i % (SIZE_COUNT - 1)] % 70000));
        usable += hak_malloc_usable_size(take(heap, 3 * TEST_MIB)) + hak_malloc_usable_size(take(heap, TEST_GIB + 5));
        size_t freed = hak_heap_reset(heap);
        CHECK_SAY(freed >= usable, "%zu of %zu", freed, usable);
        hak_heap_stats_t stats = stats_of(heap);
        CHECK(stats.live == 0 && stats.live_blocks == 0 && stats.taken == 0);
        CHECK_HEAP();
    }
    CHECK_EQ(hak_heap_reset(heap), 0);
    hak_heap_destroy(heap);
    hak_heap_destroy(NULL);
    hak_heap_release(NULL);
    CHECK(kept[0] == 0x5a && hak_heap_of(kept) == stays);
    hak_heap_destroy(stays);
    CHECK_HEAP();
}

/* Blocks stay when their heap is released, and everything may be done to them. */
static void release(void) {
    enum { COUNT = 3000 };
    static char *blocks[COUNT];
    hak_heap_t *heap = hak_heap_new(NULL);
    uint64_t before = 0, after = 0;
    CHECK_EQ(hak_stat_read("live", &before), 0);
    for (unsigned i = 0; i < COUNT; i++)
        blocks[i] = take(heap, i == 0 ? TEST_GIB + 1 : i % 500 == 0 ? TEST_MIB : sizes[i % 11]);
    for (unsigned i = 0; i < COUNT; i += 2) {
        hak_free(blocks[i]);
        blocks[i] = NULL;
    }
    hak_heap_release(heap);
    for (unsigned i = 1; i < COUNT; i += 2) {
        CHECK(hak_heap_of(blocks[i]) == NULL && hak_malloc_usable_size(blocks[i]) >= sizes[i % 11]);
        if (i % 4 == 1)
            blocks[i] = hak_realloc(blocks[i], 2000);
    }
    CHECK_HEAP();
    for (unsigned i = 0; i < COUNT; i++)
        hak_free(blocks[i]);
    (void)hak_trim(); /* what waits in quarantine counts as live */
    CHECK_EQ(hak_stat_read("live", &after), 0);
    CHECK_SAY(after <= before, "%llu bytes live, %llu before", (unsigned long long)after, (unsigned long long)before);
    CHECK_HEAP();
}

/* Whatever is taken has whole slots of 64 KiB, may come from blocks that were freed and are larger, or grow ahead. */
static void limits_hold(void) {
    for (size_t size = 300000; size < 20 * TEST_MIB; size += size / 2) {
        hak_heap_t *other = hak_heap_new(NULL);
        void *larger[8];
        for (unsigned i = 0; i < 8; i++)
            larger[i] = take(other, size + size / 10);
        for (unsigned i = 0; i < 8; i++)
            hak_free(larger[i]);
        hak_heap_options_t options = {.struct_size = sizeof options, .limit = 3 * size + size / 3};
        hak_heap_t *heap = hak_heap_new(&options);
        while (hak_heap_malloc(heap, size) != NULL)
            CHECK(stats_of(heap).taken <= options.limit);
        hak_heap_reset(heap);
        char *grown = take(heap, size);
        for (size_t now = size; grown != NULL; now += size / 5) {
            CHECK(stats_of(heap).taken <= options.limit && stats_of(heap).peak_taken <= options.limit);
            memset(grown, 1, now);
            grown = hak_realloc(grown, now + size / 5);
        }
        hak_heap_destroy(heap);
        hak_heap_destroy(other);
    }
    CHECK_HEAP();
}

/* Blocks with a mapping of their own keep to the heap's limit and to the process's when they grow, in place or not. No
 * page of theirs is touched: at the higher levels one that grows within the limits would be copied. */
static void huge_growth(void) {
    const char *level = getenv("HAKMEM_SAFE");
    hak_heap_options_t options = {.struct_size = sizeof options, .limit = 2 * TEST_GIB};
    hak_heap_t *limited = hak_heap_new(&options), *any = hak_heap_new(NULL);
    char *block = take(limited, TEST_GIB + 1), *other = take(any, TEST_GIB + 1), *plain = hak_malloc(TEST_GIB + 1);
    CHECK(hak_heap_realloc(limited, block, 3 * TEST_GIB) == NULL && errno == ENOMEM);
    CHECK(hak_expand(block, 3 * TEST_GIB) < 3 * TEST_GIB);
    CHECK_EQ(hak_limit_set(0, 3 * TEST_GIB), 0);
    CHECK(hak_heap_realloc(any, other, 5 * TEST_GIB) == NULL && errno == ENOMEM);
    CHECK(hak_realloc(plain, 5 * TEST_GIB) == NULL && errno == ENOMEM);
    CHECK(hak_expand(other, 5 * TEST_GIB) < 5 * TEST_GIB);
    if (level == NULL || strcmp(level, "1") == 0) {
        block = hak_heap_realloc(limited, block, TEST_GIB + TEST_GIB / 2);
        CHECK(block != NULL && stats_of(limited).peak_taken >= TEST_GIB + TEST_GIB / 2);
    }
    CHECK_EQ(hak_limit_set(0, 0), 0);
    hak_free(plain);
    hak_heap_destroy(limited);
    hak_heap_destroy(any);
    CHECK_HEAP();
}

static void limits_and_names(void) {
    hak_heap_options_t options = {.struct_size = sizeof options,
                                  .name = "a name that is longer than thirty-one characters",
                                  .limit = 4 * TEST_MIB};
    hak_heap_t *heap = hak_heap_new(&options);
    CHECK(heap != NULL);
    CHECK_STR(stats_of(heap).name, "a name that is longer than thir");
    CHECK_EQ(stats_of(heap).limit, 4 * TEST_MIB);
    errno = 0;
    CHECK(hak_heap_malloc(heap, 5 * TEST_MIB) == NULL && errno == ENOMEM);
    CHECK(hak_heap_malloc(heap, 2 * TEST_GIB) == NULL);
    void *large = take(heap, 3 * TEST_MIB);
    unsigned blocks = 0;
    while (hak_heap_malloc(heap, 1000) != NULL)
        blocks++;
    CHECK(blocks > 700 && blocks <= 1100 && stats_of(heap).taken <= 4 * TEST_MIB);
    hak_free(large);
    take(heap, 500 * TEST_KIB);
    hak_heap_reset(heap);
    take(heap, 3 * TEST_MIB);
    hak_heap_destroy(heap);

    options = (hak_heap_options_t){.struct_size = sizeof options, .name = "textures"};
    heap = hak_heap_new(&options);
    take(heap, 10000);
    uint64_t value = 0;
    CHECK_EQ(hak_stat_read("heap/textures/live", &value), 0);
    CHECK_EQ(value, stats_of(heap).live);
    CHECK_EQ(hak_stat_read("heap/textures/live_blocks", &value), 0);
    CHECK_EQ(value, 1);
    CHECK_EQ(hak_stat_read("heap/textures/nope", &value), ENOENT);
    CHECK_EQ(hak_stat_read("heap/textures", &value), ENOENT);
    CHECK_EQ(hak_stat_read("heap/other/live", &value), ENOENT);
    hak_heap_destroy(heap);
    CHECK_EQ(hak_stat_read("heap/textures/live", &value), ENOENT);
    const size_t wrong[] = {0, 3, sizeof options - 1, sizeof options + 8};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        options.struct_size = (uint32_t)wrong[i];
        errno = 0;
        CHECK(hak_heap_new(&options) == NULL && errno == EINVAL);
    }
}

/* A program that was built with a header whose records had less at their end. */
static void shorter_records(void) {
    hak_heap_options_t options = {offsetof(hak_heap_options_t, limit), "short", TEST_MIB};
    hak_heap_t *heap = hak_heap_new(&options);
    take(heap, 2 * TEST_MIB); /* the limit was not read */
    hak_heap_stats_t stats = {.struct_size = offsetof(hak_heap_stats_t, allocs), .allocs = 77};
    CHECK_EQ(hak_heap_stats_get(heap, &stats), 0);
    CHECK_EQ(stats.struct_size, offsetof(hak_heap_stats_t, allocs));
    CHECK(strcmp(stats.name, "short") == 0 && stats.live_blocks == 1 && stats.live >= 2 * TEST_MIB);
    CHECK_EQ(stats.allocs, 77);
    stats.struct_size = sizeof stats + 8;
    CHECK_EQ(hak_heap_stats_get(heap, &stats), EINVAL);
    hak_heap_destroy(heap);
}

typedef struct seen {
    size_t count, bytes, most;
    bool frees;
} seen_t;

static bool see(void *block, size_t size, void *context) {
    seen_t *seen = context;
    CHECK(hak_heap_of(block) != NULL && hak_malloc_usable_size(block) == size);
    seen->bytes += size;
    if (seen->frees)
        hak_free(block);
    return ++seen->count < seen->most;
}

static void visits(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    seen_t seen = {.most = SIZE_MAX};
    CHECK(hak_heap_visit(heap, see, &seen) == 0 && seen.count == 0);
    for (unsigned i = 0; i < 5000; i++) {
        char *block = take(heap, sizes[i % 12]);
        if (i % 3 == 0)
            hak_free(block);
    }
    take(heap, TEST_MIB);
    take(heap, TEST_GIB + 1);
    hak_heap_stats_t stats = stats_of(heap);
    CHECK_EQ(hak_heap_visit(heap, see, &seen), 0);
    CHECK_EQ(seen.count, stats.live_blocks);
    CHECK(seen.bytes <= stats.live && seen.bytes > stats.live / 2);
    seen = (seen_t){.most = 7};
    CHECK(hak_heap_visit(heap, see, &seen) == ECANCELED && seen.count == 7);
    CHECK_EQ(hak_heap_visit(heap, NULL, NULL), EINVAL);
    seen = (seen_t){.most = SIZE_MAX, .frees = true};
    CHECK(hak_heap_visit(heap, see, &seen) == 0 && seen.count == stats.live_blocks);
    CHECK_EQ(stats_of(heap).live_blocks, 0);
    hak_heap_destroy(heap);
}

/* All blocks of the heap are freed in the first call, and what was a slab of it serves the program. */
enum { BLOCKS = 4000, OF = 480 };
static char *all[BLOCKS];

static bool see_and_free(void *block, size_t size, void *context) {
    unsigned *calls = context;
    CHECK(size >= OF && hak_heap_of(block) != NULL);
    if (++*calls > 1)
        return true;
    hak_free_batch((void **)all, BLOCKS);
    (void)hak_trim();
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK((all[i] = hak_malloc(OF)) != NULL);
    return true;
}

static void visit_that_frees(void) {
    unsigned calls = 0;
    hak_heap_t *heap = hak_heap_new(NULL);
    for (unsigned i = 0; i < BLOCKS; i++)
        all[i] = take(heap, OF);
    CHECK(hak_heap_visit(heap, see_and_free, &calls) == 0 && calls == 1);
    hak_heap_destroy(heap);
    hak_free_batch((void **)all, BLOCKS);
}

/* What cannot move, as the heap is full, stays, and is of its new size from then on. */
static void smaller_where_full(void) {
    hak_heap_options_t options = {.struct_size = sizeof options, .limit = 4 * TEST_MIB};
    hak_heap_t *heap = hak_heap_new(&options);
    const size_t had[] = {1000, 20000, TEST_MIB};
    for (unsigned i = 0; i < 3; i++) {
        char *block = take(heap, had[i]);
        for (size_t size = TEST_MIB; size > 0; size /= 2)
            while (hak_heap_malloc(heap, size) != NULL)
                continue;
        char *smaller = hak_realloc(block, had[i] / 10);
        CHECK(smaller != NULL && smaller[0] == 0x5a);
        hak_free_sized(smaller, had[i] / 10);
        hak_heap_reset(heap);
    }
    hak_heap_destroy(heap);
    CHECK_HEAP();
}

/* One thread makes it, a second allocates, a third frees, the first ends before. */
/* What is refused stays where it was, though it would shrink: it is no block of the heap. */
static void none_into_full(void) {
    hak_heap_options_t options = {.struct_size = sizeof options, .limit = TEST_MIB};
    hak_heap_t *full = hak_heap_new(&options), *any = hak_heap_new(NULL);
    while (hak_heap_malloc(full, 4096) != NULL || hak_heap_malloc(full, 100) != NULL)
        continue;
    char *ordinary = hak_malloc(300), *others = take(any, 300);
    ordinary[0] = others[0] = 1;
    CHECK(hak_heap_realloc(full, ordinary, 100) == NULL && errno == ENOMEM);
    CHECK(hak_heap_realloc(full, others, 100) == NULL && errno == ENOMEM);
    hak_heap_destroy(full);
    CHECK(ordinary[0] == 1 && hak_heap_of(ordinary) == NULL && others[0] == 1 && hak_heap_of(others) == any);
    hak_free(ordinary);
    hak_heap_destroy(any);
}

static void *make(void *heap) {
    *(hak_heap_t **)heap = hak_heap_new(NULL);
    return take(*(hak_heap_t **)heap, 50);
}

enum { PASSED = 2000 };
static char *passed[PASSED];

static void *fill_heap(void *heap) {
    for (unsigned i = 0; i < PASSED; i++)
        passed[i] = take(heap, sizes[i % 13]);
    return NULL;
}

static void *empty_heap(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < PASSED; i++)
        hak_free(passed[i]);
    return NULL;
}

static void any_thread(void) {
    hak_heap_t *heap = NULL;
    void *block;
    pthread_t thread = test_thread(make, &heap);
    CHECK(pthread_join(thread, &block) == 0);
    CHECK(hak_heap_of(block) == heap);
    test_join(test_thread(fill_heap, heap));
    CHECK_EQ(stats_of(heap).live_blocks, PASSED + 1);
    test_join(test_thread(empty_heap, NULL));
    CHECK_EQ(stats_of(heap).live_blocks, 1);
    hak_free(block);
    CHECK_EQ(stats_of(heap).live, 0);
    hak_heap_destroy(heap);
    CHECK_HEAP();
}

static void *idle(void *unused) {
    pause();
    return unused;
}

static void in_child(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    char *block = take(heap, 1000), *large = take(heap, TEST_MIB);
    pthread_t thread = test_thread(idle, NULL); /* a fork of several threads takes the locks */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(hak_heap_of(block) == heap && block[999] == 0x5a && stats_of(heap).live_blocks == 2);
        take(heap, 77);
        hak_free(block);
        hak_heap_destroy(heap);
        CHECK(hak_heap_of(large) == NULL);
        CHECK_HEAP();
        _exit(TEST_PASS);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(block[999] == 0x5a && large[0] == 0x5a && stats_of(heap).live_blocks == 2);
    hak_heap_destroy(heap);
    (void)thread;
}

/* What is asked about other blocks counts these too. */
static void beside_others(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    uint64_t before = 0, during = 0, after = 0;
    CHECK_EQ(hak_stat_read("live", &before), 0);
    for (unsigned i = 0; i < 1000; i++)
        take(heap, 1000);
    take(heap, 2 * TEST_MIB);
    CHECK_EQ(hak_stat_read("live", &during), 0);
    CHECK_EQ(during - before, stats_of(heap).live);
    hak_heap_destroy(heap);
    CHECK_EQ(hak_stat_read("live", &after), 0);
    CHECK_EQ(after, before);
    heap = hak_heap_new(NULL);
    char *block = take(heap, 2 * TEST_MIB);
    CHECK(hak_owns(block) && hak_owns(block + 100));
    size_t now = hak_expand(block, 3 * TEST_MIB); /* where it is, or not at all */
    CHECK(now == 0 || now >= 3 * TEST_MIB);
    CHECK(hak_heap_of(block) == heap);
    hak_heap_destroy(heap);
    CHECK(!hak_owns(block));
    (void)hak_trim();
}

int main(void) {
    test_alarm(100);
    visit_that_frees(); /* before there are other places for ordinary blocks */
    every_kind();
    zeros_and_alignment();
    reallocs();
    reset_and_destroy();
    release();
    limits_hold();
    huge_growth();
    limits_and_names();
    visits();
    smaller_where_full();
    none_into_full();
    shorter_records();
    any_thread();
    beside_others();
    CHECK_HEAP();
    in_child();
    return TEST_PASS;
}
