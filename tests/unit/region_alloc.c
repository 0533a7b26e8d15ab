/* SPDX-License-Identifier: MIT
 *
 * Superslabs: each with one caller, aligned as asked, zeroed, lowest address first, at an exact place, claimed ahead in
 * growing steps.
 */
#include "base/bits.h"
#include "core/counters.h"
#include "rooms.h"
#include "sys/sys.h"

enum { MANY = 400 };

static size_t map_calls(void) { return atomic_load(&hk_counters.map_calls); }

/* Gives back as the rooms above do: pages first. */
static void give_back(size_t first, size_t count) {
    sys_purge(region_superslab_address(first), count << HK_SUPERSLAB_SHIFT);
    region_release(first, count);
}

static void window(void) {
    CHECK_EQ(hk_window.base % HK_GIB, 0);
    CHECK(hk_window.superslab_max >= 512);
    CHECK_EQ(region_claimed_bytes(), 0);
    CHECK(region_frontier() >= 1);
    CHECK(region_superslab_address(3) == (char *)hk_window.base + 3 * HK_SUPERSLAB_SIZE);
}

static void aligned(void) {
    size_t starts[16], count = 0;
    for (size_t align = 1; align <= 128; align *= 4)
        for (size_t n = 1; n <= 5; n += 2) {
            size_t first = region_alloc(n, align);
            CHECK(first != 0);
            CHECK_EQ(first % align, 0);
            for (size_t i = 0; i < n; i++)
                region_superslab_address(first + i)[1] = 1;
            starts[count++] = first;
        }
    CHECK(region_frontier() > 128);
    count = 0;
    for (size_t align = 1; align <= 128; align *= 4)
        for (size_t n = 1; n <= 5; n += 2)
            give_back(starts[count++], n);
}

/* No superslab has two owners, each reads as zeros, and their number of system calls is far below their number. */
static void distinct(void) {
    static size_t taken[MANY];
    size_t calls = map_calls(), claimed = region_claimed_bytes();
    for (size_t i = 0; i < MANY; i++) {
        taken[i] = region_alloc(1, 1);
        CHECK(taken[i] != 0);
        uint64_t *words = (uint64_t *)region_superslab_address(taken[i]);
        CHECK_EQ(words[0], 0);
        CHECK_EQ(words[HK_SUPERSLAB_SIZE / 8 - 1], 0);
        words[0] = words[HK_SUPERSLAB_SIZE / 8 - 1] = taken[i];
    }
    for (size_t i = 0; i < MANY; i++)
        CHECK_EQ(*(uint64_t *)region_superslab_address(taken[i]), taken[i]);
    size_t grown = (region_claimed_bytes() - claimed) >> HK_SUPERSLAB_SHIFT;
    CHECK(region_claimed_bytes() >= MANY * HK_SUPERSLAB_SIZE);
    CHECK(map_calls() - calls < grown / 4);
    CHECK(region_claimed_bytes() <= (MANY + MANY / 8 + 64) * HK_SUPERSLAB_SIZE);
    CHECK(region_peak_bytes() >= region_claimed_bytes());
    for (size_t i = 0; i < MANY; i++)
        give_back(taken[i], 1);
}

static void lowest_first(void) {
    size_t a = region_alloc(4, 1), b = region_alloc(4, 1), c = region_alloc(1, 1);
    CHECK(a < b && b < c);
    give_back(b, 4);
    give_back(a, 4);
    CHECK_EQ(region_alloc(8, 1), a);
    give_back(a, 8);
    CHECK_EQ(region_alloc(1, 1), a);
    give_back(a, 1);
    give_back(c, 1);
}

static void zeros_after_release(void) {
    size_t first = region_alloc(2, 2);
    memset(region_superslab_address(first), 0xaa, 2 * HK_SUPERSLAB_SIZE);
    give_back(first, 2);
    CHECK(region_alloc_at(first, 2));
    CHECK(all_zeros(region_superslab_address(first), 2 * HK_SUPERSLAB_SIZE));
    give_back(first, 2);
}

static void exact_place(void) {
    size_t first = region_alloc(1, 1);
    CHECK(!region_alloc_at(first, 1));
    CHECK(region_alloc_at(first + 1, 1));
    CHECK(!region_alloc_at(first + 1, 1));
    give_back(first + 1, 1);
    CHECK(!region_alloc_at(first, 2)); /* half of it is taken: nothing is */
    CHECK(region_alloc_at(first + 1, 1));
    /* Growth across the frontier, and none with a gap behind it or past the end of the window. */
    size_t end = region_frontier();
    CHECK(!region_alloc_at(end + 1, 1));
    CHECK(!region_alloc_at(hk_window.superslab_max, 1));
    CHECK(region_alloc_at(end, 3));
    CHECK_EQ(region_frontier() >= end + 3, true);
    region_superslab_address(end)[0] = region_superslab_address(end + 2)[HK_SUPERSLAB_SIZE - 1] = 1;
    end = region_frontier();
    size_t last = region_alloc(1, hk_is_pow2(end) ? end * 2 : (size_t)1 << hk_log2_ceil(end));
    CHECK(last >= end); /* an alignment that leaves a gap of unclaimed superslabs */
    CHECK(region_alloc_at(last - 1, 1));
    region_superslab_address(last - 1)[0] = 1;
}

static void too_much(void) {
    CHECK_EQ(region_alloc(hk_window.superslab_max, 1), 0);
    CHECK_EQ(region_alloc(hk_window.superslab_max + 1, 1), 0);
    CHECK(region_alloc(1, 1) != 0);
}

int main(void) {
    start_region();
    window();
    distinct();
    aligned();
    lowest_first();
    zeros_after_release();
    exact_place();
    too_much();
    CHECK(!region_is_tight() || sys_address_space_limit() != SIZE_MAX);
    return CHECK_PASS;
}
