/* SPDX-License-Identifier: MIT
 *
 * RLIMIT_AS, from the start or set later: memory ends with an ordinary 0, what is released leaves the address space,
 * and can be had again.
 */
#include "rooms.h"
#include "sys/sys.h"

#include <sys/resource.h>

enum { ROOM_MIB = 64, STEPS = ROOM_MIB / 2 + 1 };

static size_t address_space_bytes(void) {
    char text[128] = {0};
    long fd = sys_open_read("/proc/self/statm");
    CHECK(fd >= 0 && sys_read(fd, text, sizeof text - 1) > 0);
    sys_close(fd);
    return (size_t)strtoull(text, NULL, 10) * sys_page_size();
}

static void set_limit(size_t more) {
    struct rlimit limit = {address_space_bytes() + more, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static size_t taken[4 * STEPS];

static size_t take_all(void) {
    size_t count = 0, first;
    while (count < sizeof taken / sizeof taken[0] && (first = region_alloc(1, 1)) != 0) {
        region_superslab_address(first)[0] = 1;
        taken[count++] = first;
    }
    return count;
}

static void release_all(size_t count) {
    for (size_t i = 0; i < count; i++) {
        sys_purge(region_superslab_address(taken[i]), HK_SUPERSLAB_SIZE);
        region_release(taken[i], 1);
    }
}

static void take_and_give_back(size_t before) {
    size_t count = take_all();
    CHECK(count >= STEPS / 2 && count <= STEPS);
    CHECK(region_is_tight());
    CHECK_EQ(region_alloc(1, 1), 0);
    CHECK_EQ(region_alloc(8, 8), 0);
    size_t claimed = region_claimed_bytes();
    release_all(count);
    CHECK_EQ(region_claimed_bytes(), claimed - count * HK_SUPERSLAB_SIZE);
    CHECK(address_space_bytes() <= before + HK_MIB);
    CHECK_EQ(take_all(), count);
    for (size_t i = 0; i < count; i++)
        CHECK(region_superslab_address(taken[i])[0] == 1 && region_superslab_address(taken[i])[1] == 0);
    release_all(count);
    size_t run = region_alloc(STEPS / 2, 1);
    CHECK(run != 0);
}

/* What was refused once is a limit as long as little room is left to it, and until more was claimed after all. */
static void how_near(void) {
    const size_t many = 1000 * HK_MIB, few = 100 * HK_MIB;
    CHECK(!region_is_near_limit());
    scarce_claimed(many);
    CHECK(!region_is_near_limit() && !region_is_tight());
    scarce_refused(few);
    CHECK(region_is_at_limit() && region_is_near_limit() && region_is_tight());
    scarce_released(few);
    CHECK(!region_is_at_limit() && !region_is_near_limit() && region_is_tight());
    scarce_claimed(few);
    CHECK(region_is_at_limit());
    scarce_claimed(2 * few);
    CHECK(!region_is_at_limit()); /* forgotten */
    scarce_refused(many);
    CHECK(!region_is_at_limit()); /* much was asked for at once */
}

/* As many mappings as the kernel allows: holes in a long one, each of which makes two of one. False when there is no
 * end of them. */
static bool use_up_mappings(void) {
    const size_t page = sys_page_size(), most = (size_t)1 << 21;
    char *long_one = sys_map_none(2 * most * page);
    for (size_t i = 0; long_one != NULL && i < most - 1; i++)
        if (!sys_unmap(long_one + (2 * i + 1) * page, page))
            return true;
    return false;
}

/* What cannot be unmapped at the limit of mappings stays ours, and serves. */
static void mappings_used_up(void) {
    start_region();
    size_t first = region_alloc(3, 1);
    CHECK(first != 0);
    region_superslab_address(first + 1)[5] = 1;
    if (!use_up_mappings())
        return;
    scarce_note();
    size_t claimed = region_claimed_bytes();
    sys_purge(region_superslab_address(first + 1), HK_SUPERSLAB_SIZE);
    region_release(first + 1, 1);
    CHECK_EQ(region_claimed_bytes(), claimed);
    region_relieve(false);
    CHECK(region_alloc_at(first + 1, 1));
    CHECK(all_zeros(region_superslab_address(first + 1), HK_SUPERSLAB_SIZE));
    CHECK_EQ(region_claimed_bytes(), claimed);
    CHECK(region_check());
}

/* Room for one superslab and a half: two are refused, and leave nothing behind. */
static void half_refused(void) {
    start_region();
    size_t first = region_alloc(3, 1);
    CHECK(first != 0);
    set_limit(0);
    CHECK_EQ(region_alloc(1, 1), 0);
    CHECK(region_is_tight() && region_is_near_limit());
    sys_purge(region_superslab_address(first), 3 * HK_SUPERSLAB_SIZE);
    region_release(first, 3); /* UNCLAIMED from here on */
    CHECK_EQ(region_claimed_bytes(), 0);
    CHECK(region_is_at_limit()); /* what was refused is little, too */
    char *half = sys_map(HK_SUPERSLAB_SIZE + HK_MIB);
    CHECK(half != NULL);
    size_t before = address_space_bytes();
    CHECK_EQ(region_alloc(2, 1), 0);
    CHECK_EQ(region_claimed_bytes(), 0);
    CHECK_EQ(address_space_bytes(), before);
    CHECK(region_alloc(1, 1) != 0);
}

/* What was claimed ahead goes when something else needs it. */
static void ahead(void) {
    start_region();
    size_t first = region_alloc(256, 1);
    CHECK(first != 0 && region_alloc(1, 1) != 0);
    size_t spare = (region_claimed_bytes() >> HK_SUPERSLAB_SHIFT) - 257;
    CHECK(spare >= 8);
    set_limit(HK_SUPERSLAB_SIZE);
    CHECK(region_alloc(spare, 64) != 0); /* at another place */
}

static void from_the_start(void) {
    size_t before = address_space_bytes();
    set_limit(ROOM_MIB * HK_MIB);
    start_region();
    CHECK(region_is_tight());
    take_and_give_back(before);
}

static void set_later(void) {
    start_region();
    /* So much that the region would claim ahead. */
    size_t large = region_alloc(256, 1);
    CHECK(large != 0);
    size_t before = address_space_bytes();
    set_limit(ROOM_MIB * HK_MIB);
    take_and_give_back(before);
}

int main(void) {
    if (sys_address_space_limit() != SIZE_MAX)
        return check_skip("this process has a limit of address space already");
    if (!HK_TSAN) /* there the window is a hole that the kernel is asked for */
        in_child(from_the_start);
    in_child(set_later);
    in_child(how_near);
    in_child(half_refused);
    in_child(ahead);
    if (!HK_TSAN)
        in_child(mappings_used_up);
    return CHECK_PASS;
}
