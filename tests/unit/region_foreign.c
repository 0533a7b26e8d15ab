/* SPDX-License-Identifier: MIT
 *
 * Somebody else maps into the window: the mapping is stepped over, whatever way the superslabs there would have been
 * taken, and its contents stay.
 */
#include "rooms.h"
#include "sys/sys.h"

enum { MAPPINGS = 6, SIZE = 8192 };

static size_t foreign[MAPPINGS];
static size_t foreign_count;

static void map_foreign(size_t index) {
    char *at = region_superslab_address(index) + HK_SUPERSLAB_SIZE / 2;
    CHECK_EQ(sys_map_at(at, SIZE), 0);
    memset(at, 0x5a, SIZE);
    foreign[foreign_count++] = index;
}

static void all_whole(void) {
    for (size_t i = 0; i < foreign_count; i++) {
        const char *at = region_superslab_address(foreign[i]) + HK_SUPERSLAB_SIZE / 2;
        for (size_t k = 0; k < SIZE; k++)
            CHECK_EQ(at[k], 0x5a);
    }
}

static size_t take(size_t count, size_t align) {
    size_t first = region_alloc(count, align);
    CHECK(first != 0);
    for (size_t i = 0; i < foreign_count; i++)
        CHECK(foreign[i] < first || foreign[i] >= first + count);
    memset(region_superslab_address(first), 1, 4096);
    return first;
}

int main(void) {
    start_region();
    size_t first = take(1, 1);
    /* At the frontier, one by one and in front of a long run. */
    map_foreign(region_frontier());
    map_foreign(region_frontier() + 2);
    map_foreign(region_frontier() + 3);
    for (unsigned i = 0; i < 20; i++)
        (void)take(1, 1);
    map_foreign(region_frontier() + 5);
    (void)take(16, 1);
    all_whole();
    /* Where growth in place would go. */
    size_t end = region_frontier();
    map_foreign(end);
    CHECK(!region_alloc_at(end, 1));
    CHECK(!region_alloc_at(end, 2));
    all_whole();
    /* In the unclaimed gap that an alignment left. */
    end = region_frontier();
    size_t far = take(1, 64);
    if (far < end + 4)
        far = take(1, 256);
    map_foreign(far - 2);
    CHECK(!region_alloc_at(far - 2, 2));
    CHECK(region_alloc_at(far - 1, 1));
    for (unsigned i = 0; i < 300; i++)
        (void)take(1, 1);
    all_whole();
    sys_purge(region_superslab_address(first), HK_SUPERSLAB_SIZE);
    region_release(first, 1);
    CHECK_EQ(take(1, 1), first);
    return CHECK_PASS;
}
