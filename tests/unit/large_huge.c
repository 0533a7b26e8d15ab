/* SPDX-License-Identifier: MIT
 *
 * Huge blocks: a mapping each, aligned, found by any address in them, resized by the kernel, remembered for a while
 * when freed; any number of them. What the kernel cannot unmap goes back all the same.
 */
#include "large/huge.h"
#include "rooms.h"
#include "sys/sys.h"

#include <sys/mman.h>

enum { MANY = 300, SIZE = 5 * 4096, REMEMBERED = 16 };

static bool is_found(const void *address, const void *wanted_start, size_t wanted_size) {
    void *start = NULL;
    size_t size = 0;
    return huge_find(address, &start, &size) && start == wanted_start && size == wanted_size;
}

static bool finds(const void *address) {
    void *start;
    size_t size;
    return huge_find(address, &start, &size);
}

static void none(void) {
    int local;
    size_t size;
    CHECK_EQ(huge_bytes(), 0);
    CHECK(!finds(&local) && !finds(NULL));
    CHECK(!huge_free(&local) && !huge_free(NULL));
    CHECK(huge_resize(&local, 4096) == NULL);
    CHECK(!huge_was_freed(&local, &size) && !huge_was_freed(NULL, &size));
    CHECK(huge_alloc(SIZE_MAX, 1) == NULL);
    CHECK(huge_alloc(SIZE_MAX - 5000, 1) == NULL);
    CHECK(huge_alloc((size_t)1 << 50, 1) == NULL);
    CHECK(huge_alloc((size_t)1 << 62, (size_t)1 << 63) == NULL);
    CHECK_EQ(huge_bytes(), 0);
}

static void many(void) {
    static char *blocks[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        blocks[i] = huge_alloc(SIZE - i % 4096, 1);
        CHECK(blocks[i] != NULL && all_zeros(blocks[i], SIZE));
        memset(blocks[i], (int)i, SIZE);
    }
    CHECK_EQ(huge_bytes(), MANY * SIZE);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_EQ((unsigned char)blocks[i][SIZE - 1], i % 256);
        CHECK(is_found(blocks[i], blocks[i], SIZE));
        CHECK(is_found(blocks[i] + SIZE - 1, blocks[i], SIZE));
        CHECK(is_found(blocks[i] + 4097, blocks[i], SIZE));
        CHECK(!huge_free(blocks[i] + 16));
    }
    for (unsigned i = 0; i < MANY; i++) {
        unsigned k = i * 7 % MANY;
        CHECK(huge_free(blocks[k]));
        CHECK(!huge_free(blocks[k]));
        CHECK(!finds(blocks[k] + 1));
        size_t size = 0;
        CHECK(huge_was_freed(blocks[k], &size));
        CHECK_EQ(size, SIZE);
        if (i >= REMEMBERED)
            CHECK(!huge_was_freed(blocks[(i - REMEMBERED) * 7 % MANY], &size));
    }
    CHECK_EQ(huge_bytes(), 0);
}

static void resized(void) {
    size_t page = sys_page_size();
    char *block = huge_alloc(4 * page, 1), *fence = huge_alloc(page, 1);
    memset(block, 3, 4 * page);
    char *larger = huge_resize(block, 64 * page - 1);
    CHECK(larger != NULL && is_found(larger + 63 * page, larger, 64 * page));
    CHECK(larger == block || !finds(block));
    CHECK_EQ(huge_bytes(), 65 * page);
    for (size_t i = 0; i < 64 * page; i += 64)
        CHECK_EQ(larger[i], i < 4 * page ? 3 : 0);
    CHECK(huge_resize(larger + page, page) == NULL);
    CHECK(huge_resize(larger, 0) == NULL);
    CHECK(huge_resize(larger, (size_t)1 << 50) == NULL);
    CHECK(huge_resize(larger, 2 * page) == larger);
    CHECK_EQ(larger[2 * page - 1], 3);
    CHECK(!finds(larger + 2 * page));
    CHECK(huge_free(larger) && huge_free(fence));
    CHECK_EQ(huge_bytes(), 0);
}

static void aligned(void) {
    for (size_t align = 1; align <= 4 * HK_GIB; align *= 4) {
        char *block = huge_alloc(3 * HK_MIB, align);
        CHECK(block != NULL && (uintptr_t)block % align == 0);
        CHECK(is_found(block, block, 3 * HK_MIB));
        block[0] = block[3 * HK_MIB - 1] = 1;
        /* Nothing sticks out of it. */
        unsigned char resident;
        CHECK(mincore(block + 3 * HK_MIB - 4096, 4096, &resident) == 0);
        CHECK(huge_free(block));
        CHECK(mincore(block, 4096, &resident) != 0 && mincore(block + 2 * HK_MIB, 4096, &resident) != 0);
    }
}

static size_t resident_pages(char *from, size_t size) {
    size_t count = 0;
    unsigned char resident;
    for (size_t at = 0; at < size; at += sys_page_size())
        count += mincore(from + at, sys_page_size(), &resident) == 0 && (resident & 1) != 0;
    return count;
}

static size_t mappings_limit(void) {
    char text[32] = {0};
    long fd = sys_open_read("/proc/sys/vm/max_map_count");
    CHECK(fd >= 0 && sys_read(fd, text, sizeof text - 1) > 0);
    sys_close(fd);
    return strtoull(text, NULL, 10);
}

/* By every second page's protection; the mapping that this leaves over is used up too. */
static void use_up_mappings(void) {
    size_t page = sys_page_size(), count = mappings_limit() + 1000;
    char *base = sys_map_none(count * page);
    CHECK(base != NULL);
    for (size_t i = 1; i < count && mprotect(base + i * page, page, PROT_READ) == 0; i += 2)
        ;
    while (mmap(NULL, page, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED &&
           mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        ;
}

/* Somebody's pages, of which the kernel makes one mapping with the block's beside them. */
static bool map_beside(char *at, size_t size) {
    bool done = sys_map_at(at, size) == 0;
    sys_name(at, size, "hakmem-large");
    if (done)
        memset(at, 2, size);
    return done;
}

/* What cannot be unmapped, as it lies in the middle of a mapping, goes back page by page. */
static void at_limit_of_mappings(void) {
    size_t page = sys_page_size(), size = 16 * page;
    if (mappings_limit() > 2000000)
        return;
    char *block = huge_alloc(3 * size, 1);
    memset(block, 1, 3 * size);
    CHECK(huge_resize(block, 2 * size) == block && map_beside(block + 2 * size, size));
    bool both_sides = map_beside(block - size, size);
    use_up_mappings();
    CHECK(huge_resize(block, size) == block && !finds(block + size));
    CHECK_EQ(resident_pages(block, size), 16);
    CHECK_EQ(resident_pages(block + size, size), 0);
    CHECK(huge_free(block) && !finds(block));
    CHECK_EQ(resident_pages(block, size), 0);
    CHECK_EQ(resident_pages(block + 2 * size, size), 16);
    CHECK(!both_sides || resident_pages(block - size, size) == 16);
}

int main(void) {
    start_map();
    none();
    many();
    resized();
    aligned();
    in_child(at_limit_of_mappings);
    return CHECK_PASS;
}
