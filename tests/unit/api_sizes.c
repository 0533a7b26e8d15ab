/* SPDX-License-Identifier: MIT
 *
 * hak_malloc_at_least, hak_good_size, hak_expand, the batches and sized frees against a model: every size to 64 KiB,
 * random ones to 4 GiB. Runs at each level: HAKMEM_SAFE is the argument.
 */
#include "check.h"
#include "hakmem.h"

#include "core/counters.h"
#include "core/panic.h"
#include "rooms.h"
#include "start/start.h"

enum { EVERY_MAX = 64 * 1024, RANDOM_COUNT = 3000, BORROWED_MAX = 40 };

static unsigned level;

/* The rules of docs/architecture.md: steps of 16, then 8 a doubling, then slots, then pages. */
static size_t size_of_block(size_t size) {
    if (size <= 1024)
        return size == 0 ? 16 : (size + 15) / 16 * 16;
    if (size > 256 * HK_KIB)
        return size <= HK_GIB ? (size + 65535) / 65536 * 65536 : (size + 4095) / 4096 * 4096;
    size_t step = 128;
    while (size > step * 16)
        step *= 2;
    return (size + step - 1) / step * step;
}

/* At level 2 a block of a slab ends in its seal, a larger one at a page that nobody may touch. */
static size_t model_size(size_t size) {
    if (level == 3 || size == 0)
        return level >= 2 ? size : size_of_block(size);
    if (level < 2)
        return size_of_block(size);
    return size <= 256 * HK_KIB - 8 ? size_of_block(size + 8) - 8 : hk_align_up(size, sys_page_size());
}

static void is_intact(const char *block, size_t size) {
    CHECK(size == 0 || (block[0] == 0x5a && block[size - 1] == 0x5a));
}

/* Any size between that which was asked for and the usable one is the block's. */
static void free_within(void *block, size_t size, size_t actual, uint64_t *random) {
    size_t within = size + (actual > size ? next_random(random) % (actual - size + 1) : 0);
    uint64_t errors = hk_misuse_count();
    hak_free_sized(block, within);
    CHECK_SAY(hk_misuse_count() == errors, "size %zu, usable %zu, %zu given", size, actual, within);
}

static void one_size(size_t size, bool exact, uint64_t *random) {
    size_t good = hak_good_size(size), actual = 0;
    CHECK_EQ(good, model_size(size));
    CHECK_EQ(hak_good_size(good), good);
    char *block = hak_malloc_at_least(size, &actual);
    CHECK(block != NULL && actual == hak_malloc_usable_size(block));
    CHECK_SAY(actual >= good && (!exact || actual == good), "size %zu: usable %zu, good %zu", size, actual, good);
    if (actual > 0)
        block[0] = block[actual - 1] = 0x5a;
    free_within(block, size, actual, random);
    for (size_t end = size; end <= actual; end += actual - size + (actual == size)) { /* both ends */
        block = hak_malloc_at_least(size, &actual);
        CHECK(block != NULL);
        uint64_t errors = hk_misuse_count();
        hak_free_sized(block, end < actual ? end : actual);
        CHECK_EQ(hk_misuse_count(), errors);
    }
}

/* The first blocks of a class may be of a larger one, so each class is asked some times before. */
static void every_size(void) {
    uint64_t random = 7;
    for (size_t size = 0; size <= EVERY_MAX; size = hak_good_size(size) + 1)
        for (unsigned i = 0; i < BORROWED_MAX && level < 3; i++)
            hak_free(hak_malloc(size));
    for (size_t size = 0; size <= EVERY_MAX; size++)
        one_size(size, true, &random);
}

static void random_sizes(void) {
    uint64_t random = 11;
    for (unsigned i = 0; i < RANDOM_COUNT; i++) {
        size_t top = (size_t)1 << next_random(&random) % 32;
        one_size(top + next_random(&random) % top, false, &random);
    }
    one_size((size_t)4 << 30, false, &random);
    CHECK_EQ(hak_good_size(SIZE_MAX), 0);
    CHECK_EQ(hak_good_size((size_t)1 << 48), 0);
    CHECK_EQ(hak_good_size((size_t)1 << (HK_X86_64 ? 47 : 48)), 0);
    size_t actual = 1;
    errno = 0;
    CHECK(hak_malloc_at_least(SIZE_MAX, &actual) == NULL && errno == ENOMEM && actual == 0);
    hak_free(hak_malloc_at_least(5, NULL));
}

/* What expands stays where it is, with its contents; what does not is as it was. */
static void expand_one(size_t size, size_t wanted, uint64_t *random) {
    size_t actual;
    char *block = hak_malloc_at_least(size, &actual);
    CHECK(block != NULL);
    memset(block, 0x5a, actual < 4096 ? actual : 4096);
    size_t known = actual < 4096 ? actual : 4096, now = hak_expand(block, wanted);
    CHECK_SAY(now == 0 || now >= wanted, "%zu to %zu: %zu", size, wanted, now);
    CHECK_EQ(hak_malloc_usable_size(block), now != 0 ? now : actual);
    CHECK(level == 3 || !(wanted >= size && wanted <= actual) || now == actual);
    CHECK(level != 3 || now == 0 || now == wanted);
    known = now != 0 && now < known ? now : known;
    is_intact(block, known);
    if (now != 0)
        free_within(block, wanted, now, random);
    else
        free_within(block, size, actual, random);
}

static void expands(void) {
    uint64_t random = 13;
    CHECK_EQ(hak_expand(NULL, 10), 0);
    for (size_t size = 1; size <= EVERY_MAX; size += 1 + size / 16)
        for (size_t wanted = 1; wanted <= 2 * size; wanted += 1 + size / 8)
            expand_one(size, wanted, &random);
    for (unsigned i = 0; i < RANDOM_COUNT; i++) {
        size_t top = (size_t)1 << (16 + next_random(&random) % 16), size = top + next_random(&random) % top;
        expand_one(size, 1 + next_random(&random) % (2 * size), &random);
    }
    for (size_t big = HK_MIB; big <= 2 * HK_GIB; big *= 2 * HK_KIB) { /* a run, a mapping of its own */
        char *block = hak_malloc(big);
        CHECK(block != NULL);
        block[0] = 0x5a;
        CHECK_EQ(hak_expand(block, SIZE_MAX), 0);
        CHECK_EQ(hak_expand(block, big / 2) != 0, level < 3);
        CHECK_EQ(block[0], 0x5a);
        hak_free(block);
    }
}

static void batches(void) {
    enum { COUNT = 5000 };
    static void *blocks[COUNT];
    uint64_t random = 17;
    for (size_t size = 0; size <= 300000; size = size * 3 + 1) {
        size_t count = size < 10000 ? COUNT : 50;
        CHECK_EQ(hak_malloc_batch(size, count, blocks), count);
        for (size_t i = 0; i < count; i++) {
            CHECK(blocks[i] != NULL && hak_malloc_usable_size(blocks[i]) >= size);
            memset(blocks[i], (int)(i % 251), size);
        }
        for (size_t i = 0; i < count && size > 0; i++)
            CHECK_EQ(((unsigned char *)blocks[i])[size - 1], i % 251);
        hak_free_batch(blocks, count);
    }
    for (unsigned i = 0; i < COUNT; i++)
        blocks[i] = i % 7 == 0 ? NULL : hak_malloc(next_random(&random) % 2000);
    hak_free_batch(blocks, COUNT);
    hak_free_batch(NULL, 0);
    errno = 0;
    CHECK_EQ(hak_malloc_batch(SIZE_MAX, 3, blocks), 0);
    CHECK_EQ(errno, ENOMEM);
    CHECK_EQ(hak_malloc_batch(10, 0, NULL), 0);
}

static void stat_by_name(void) {
    static hak_stats_t stats = {.struct_size = sizeof stats};
    uint64_t value = 0;
    (void)hak_trim(); /* what was freed before and waits to go back is not looked for here */
    void *block = hak_malloc(100 * HK_MIB);
    CHECK_EQ(hak_stats_get(&stats), 0);
#define HK_STAT_GROUP(title)
#define HK_STAT(field, ...) CHECK_EQ(hak_stat_read(#field, &value), 0);
#include "api/stats.def"
#undef HK_STAT
#undef HK_STAT_GROUP
    CHECK_EQ(hak_stat_read("live", &value), 0);
    CHECK(value == stats.live && value >= 100 * HK_MIB);
    CHECK_EQ(hak_stat_read("mapped", &value), 0);
    CHECK(value >= 100 * HK_MIB);
    CHECK_EQ(hak_stat_read("resident", &value), 0);
    CHECK(value > 0 && value < 100 * HK_MIB);
    CHECK_EQ(hak_stat_read("classes", &value), ENOENT);
    CHECK_EQ(hak_stat_read("", &value), ENOENT);
    CHECK_EQ(hak_stat_read(NULL, &value), EINVAL);
    CHECK_EQ(hak_stat_read("live", NULL), EINVAL);
    hak_free(block);
}

int main(int count, char **arguments) {
    level = count > 1 ? (unsigned)atoi(arguments[1]) : 1;
    char text[2] = {(char)('0' + level), 0};
    CHECK_EQ(setenv("HAKMEM_SAFE", text, 1), 0);
    CHECK_EQ(setenv("HAKMEM_ON_ERROR", "report", 1), 0);
    every_size();
    random_sizes();
    expands();
    batches();
    stat_by_name();
    CHECK_EQ(hak_check(), 0);
    CHECK_EQ(hk_misuse_count(), 0);
    return CHECK_PASS;
}
