/* SPDX-License-Identifier: MIT
 *
 * realloc that grows a buffer by doubling to 1 GiB, and by 1 % steps to 64 MiB, copies nothing above 1 MiB: a buffer of
 * which only a page in a MiB was touched stays that small, one that is filled gets huge pages. And address space: a
 * heap of 16 GiB has few mappings.
 */
#include "testing.h"

#include <sys/resource.h>

enum { RESERVED_BLOCKS = 256, MAPPINGS_MAX = 1000 };

static void grow(size_t limit, bool doubling) {
    long base = test_rss_kib();
    size_t size = 64, touched = 0;
    char *buffer = (char *)malloc(size);
    unsigned marks = 0;
    while (size < limit) {
        size = doubling ? size * 2 : size + (size / 100 > 16 ? size / 100 : 16);
        buffer = (char *)realloc(buffer, size);
        CHECK(buffer != NULL);
        for (; touched + 8 < size; touched += TEST_MIB)
            memcpy(buffer + touched, &marks, sizeof marks), marks++;
    }
    for (unsigned i = 0; i < marks; i++)
        CHECK(memcmp(buffer + i * TEST_MIB, &i, sizeof i) == 0);
    long kib = test_rss_kib() - base;
    CHECK_SAY(kib < 16 * 1024, "%ld KiB resident for %u pages of a buffer of %zu bytes", kib, marks, size);
    free(buffer);
}

static bool system_has_huge_pages(void) {
    char text[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (file == NULL)
        return false;
    bool read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    return read && strstr(text, "[never]") == NULL;
}

/* A buffer that is filled as it grows moves once in ten steps or so, and gets huge pages: few page faults. */
static void fill_growing(void) {
    enum { LIMIT = 64 * 1024 * 1024, STEPS_A_MOVE = 6, FAULTS_MAX = 12000 /* of 16,384 pages */ };
    size_t size = 64, moves = 0, steps = 0;
    char *buffer = (char *)malloc(size);
    struct rusage before, after;
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    while (size < LIMIT) {
        size_t old = size;
        size += size / 100 > 16 ? size / 100 : 16;
        char *now = (char *)realloc(buffer, size);
        CHECK(now != NULL);
        memset(now + old, 1, size - old);
        moves += now != buffer && size > 4 * TEST_MIB;
        steps += size > 4 * TEST_MIB;
        buffer = now;
    }
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    free(buffer);
    long faults = after.ru_minflt - before.ru_minflt;
    CHECK_SAY(moves * STEPS_A_MOVE < steps, "%zu moves in %zu steps", moves, steps);
    CHECK_SAY(!system_has_huge_pages() || faults < FAULTS_MAX, "%ld page faults", faults);
}

static unsigned mapping_count(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    unsigned lines = 0;
    for (int c = fgetc(maps); c != EOF; c = fgetc(maps))
        lines += c == '\n';
    fclose(maps);
    return lines;
}

static void address_space(void) {
    static void *blocks[RESERVED_BLOCKS], *small[RESERVED_BLOCKS * 100];
    for (unsigned i = 0; i < RESERVED_BLOCKS; i++) {
        blocks[i] = malloc(64 * TEST_MIB);
        CHECK(blocks[i] != NULL);
        for (unsigned k = 0; k < 100; k++)
            memset(small[i * 100 + k] = malloc(2000), 1, 2000);
    }
    unsigned count = mapping_count();
    test_say("%u mappings at 16 GiB\n", count);
    CHECK(count < MAPPINGS_MAX);
    for (unsigned i = 0; i < RESERVED_BLOCKS; i++)
        free(blocks[i]);
    for (unsigned i = 0; i < RESERVED_BLOCKS * 100; i++)
        free(small[i]);
}

int main(void) {
    test_require_hakmem();
    test_alarm(100);
    grow(TEST_GIB, true);
    grow(64 * TEST_MIB, false);
    fill_growing();
    address_space();
    return TEST_PASS;
}
