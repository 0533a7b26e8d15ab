/* SPDX-License-Identifier: MIT
 *
 * Areas: apart from the superslabs and from each other, each at a random place of its own, usable and zeroed as far as
 * they were covered, refused beyond their end; their number of system calls grows with the logarithm of their size.
 * Once huge pages are earned, what comes behind the first border of one is mapped by whole ones. Where somebody else
 * has mapped they go on behind, and what is left out reads as zeros where it must.
 */
#include "base/bits.h"
#include "core/counters.h"
#include "region/index.h"
#include "rooms.h"
#include "sys/sys.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* The first `size` bytes. */
static int region_area_cover(region_area_t area, size_t size) {
    return region_area_cover_part(area, 0, size) == 0 ? 0 : ENOMEM;
}

static bool meet(uintptr_t one, size_t one_size, uintptr_t other, size_t other_size) {
    return one - other < other_size || other - one < one_size;
}

static void apart(void) {
    for (region_area_t area = 0; area < REGION_AREA_COUNT; area++) {
        uintptr_t at = hk_window.areas[area];
        size_t size = hk_window.area_sizes[area];
        CHECK_EQ(at % (64 * HK_KIB), 0);
        CHECK(!meet(at, size, hk_window.base, hk_window.superslab_max << HK_SUPERSLAB_SHIFT));
        CHECK(!REGION_HAS_LIVE_ORIGIN || !meet(at, size, hk_window.live_origin, 1));
        for (region_area_t other = 0; other < area; other++)
            CHECK(!meet(at, size, hk_window.areas[other], hk_window.area_sizes[other]));
        CHECK(region_area_size(area) > 0);
        CHECK(region_area_has((void *)(at + region_area_size(area) - 1)));
        CHECK(!region_area_has((void *)(at + region_area_size(area))));
    }
    CHECK(hk_window.area_sizes[REGION_AREA_TABLE] >= hk_window.superslab_max * HK_SLOTS_PER_SUPERSLAB * 4);
    CHECK(hk_window.area_sizes[REGION_AREA_SLABS] >= hk_window.superslab_max * HK_SLOTS_PER_SUPERSLAB * 128);
    CHECK(hk_window.area_sizes[REGION_AREA_LIVE] >= hk_window.superslab_max * (HK_SUPERSLAB_SIZE / 128));
    CHECK(hk_window.area_sizes[REGION_AREA_STATE] >= index_end_bytes(hk_window.superslab_max));
}

/* Another window. */
static void start_anew(void) {
    for (region_area_t area = 0; area < REGION_AREA_COUNT; area++)
        area_end(area);
    hk_window.base = 0;
    CHECK_EQ(region_init(), 0);
}

/* The place of the first superslab is free, and nobody who takes more than that can have it. */
static void beginning_is_held(void) {
    start_anew();
    char *first = region_superslab_address(region_frontier());
    CHECK_EQ(sys_map_none_at(first - sys_page_size(), HK_GIB), EEXIST);
    CHECK_EQ(sys_map_none_at(first, HK_SUPERSLAB_SIZE), 0);
}

/* The distance of an area from the superslabs, or from another area, is not the one it was before. Places are multiples
 * of 2 MiB in some 64 TiB, which is 2^25. So it happens by chance, in one run of 2,000, that two of the 50 windows have
 * one distance in common; that it happens twice with the same distance, in one of 10^8. (A hole of the kernel's has the
 * areas in their order.) */
static void unknown_places(void) {
    enum { WINDOWS = 50, BY_CHANCE = 1 };
    static uintptr_t seen[WINDOWS][REGION_AREA_COUNT + 1];
    static unsigned same[REGION_AREA_COUNT + 1][REGION_AREA_COUNT + 1];
    if (HK_TSAN || hk_window.superslab_max < INDEX_SUPERSLABS_MAX)
        return;
    for (int i = 0; i < WINDOWS; i++) {
        start_anew();
        apart();
        memcpy(seen[i], hk_window.areas, sizeof hk_window.areas);
        seen[i][REGION_AREA_COUNT] = hk_window.base;
        for (int before = 0; before < i; before++)
            for (int a = 0; a <= REGION_AREA_COUNT; a++)
                for (int b = 0; b < a; b++) {
                    same[a][b] += seen[i][a] - seen[i][b] == seen[before][a] - seen[before][b];
                    CHECK(same[a][b] <= BY_CHANCE);
                }
    }
}

/* Each superslab's records, far from each other and in front of those that are covered; what lies between reads as
 * zeros in tables. */
static void pieces(region_area_t area, bool reads) {
    static const size_t superslabs[] = {100000, 100001, 3000000, 200000, 199999, 8000000, 150000, 100000};
    const size_t share = window_area_share(area);
    for (size_t i = 0; i < sizeof superslabs / sizeof superslabs[0]; i++) {
        unsigned char *at = (unsigned char *)hk_window.areas[area] + superslabs[i] * share;
        CHECK_EQ(area_cover_superslabs(area, superslabs[i], 1), 0);
        if (i < 7) {
            CHECK_EQ(at[0], 0);
            CHECK_EQ(at[share - 1], 0);
            at[0] = at[share - 1] = (unsigned char)(i + 1);
        }
        CHECK(at[0] != 0 && at[share - 1] != 0);
        CHECK(region_area_has(at));
    }
    for (size_t at = 0; reads && at < 8000000; at += 12345)
        CHECK_EQ(((unsigned char *)hk_window.areas[area])[at * share], 0);
    CHECK(!region_area_has((unsigned char *)hk_window.areas[area] + 1000000 * share));
    CHECK(region_area_bytes() < 16 * HK_MIB);
}

static void far_apart(void) {
    if (hk_window.superslab_max < INDEX_SUPERSLABS_MAX)
        return;
    pieces(REGION_AREA_TABLE, true);
    pieces(REGION_AREA_SUPERSLABS, true);
    pieces(REGION_AREA_LIVE, false);
    pieces(REGION_AREA_SLABS, false);
}

static void somebody_there(void) {
    region_area_t area = REGION_AREA_META;
    size_t end = region_area_size(area);
    char *there = (char *)hk_window.areas[area] + end + 128 * HK_KIB;
    CHECK_EQ(sys_map_at(there, 64 * HK_KIB), 0);
    memset(there, 7, 64 * HK_KIB);
    CHECK_EQ(region_area_cover_part(area, end, end + 128 * HK_KIB), 0);
    CHECK_EQ(region_area_cover_part(area, end, end + 128 * HK_KIB + 1), EEXIST);
    CHECK_EQ(region_area_cover(area, end + 128 * HK_KIB + 1), ENOMEM);
    CHECK_EQ(region_area_cover_part(area, end + 200 * HK_KIB, end + 200 * HK_KIB + 1), 0);
    CHECK_EQ(region_area_cover_part(area, end + 4 * HK_MIB, end + 4 * HK_MIB + 1), 0);
    for (size_t i = 0; i < 64 * HK_KIB; i++)
        CHECK_EQ(there[i], 7);
}

/* Somebody is behind what was filled up to a piece that could not be made: the next one replaces no more than that. */
static void somebody_behind_filling(void) {
    region_area_t area = REGION_AREA_TABLE;
    size_t end = region_area_size(area), at = hk_align_up(end + HK_MIB, 64 * HK_KIB);
    char *there = (char *)hk_window.areas[area] + at;
    CHECK_EQ(sys_map_at(there, sys_page_size()), 0);
    memset(there, 7, sys_page_size());
    CHECK_EQ(region_area_cover_part(area, at, at + 1), EEXIST);
    CHECK_EQ(region_area_cover_part(area, at + sys_page_size(), at + sys_page_size() + 1), EEXIST);
    for (size_t i = 0; i < sys_page_size(); i++)
        CHECK_EQ(there[i], 7);
    CHECK_EQ(region_area_cover_part(area, end, at), 0);
    memset((char *)hk_window.areas[area] + end, 1, at - end);
    CHECK_EQ(there[0], 7);
}

/* Nothing is left of an area, not even what was filled in front of a piece, or of one that could not be made. */
static void ended(region_area_t area, size_t at) {
    size_t page = sys_page_size(), start = hk_window.areas[area];
    char *there = (char *)start + hk_align_up(at, 64 * HK_KIB);
    CHECK_EQ(sys_map_at(there, page), 0);
    CHECK_EQ(region_area_cover_part(area, (size_t)(there - (char *)start), (size_t)(there - (char *)start) + 1),
             EEXIST);
    area_end(area);
    for (char *place = (char *)start; place < there; place += page)
        CHECK_EQ(sys_map_none_at(place, page), 0);
    CHECK_EQ(region_area_size(area), 0);
}

static void ends(void) {
    ended(REGION_AREA_TABLE, region_area_size(REGION_AREA_TABLE) + HK_MIB);
    ended(REGION_AREA_SUPERSLABS, region_area_size(REGION_AREA_SUPERSLABS) + HK_MIB);
    ended(REGION_AREA_META, region_area_size(REGION_AREA_META) + HK_MIB);
}

static void covered(region_area_t area) {
    char *at = (char *)hk_window.areas[area];
    size_t before = region_area_bytes(), calls = atomic_load(&hk_counters.map_calls);
    CHECK_EQ(region_area_cover(area, 0), 0);
    CHECK_EQ(region_area_bytes(), before);
    CHECK_EQ(region_area_cover(area, 1), 0);
    size_t size = 0;
    for (size_t wanted = 1; wanted < 8 * HK_MIB; wanted += 10000) {
        CHECK_EQ(region_area_cover(area, wanted), 0);
        for (; size < wanted; size += 4096) {
            CHECK_EQ(at[size], 0);
            at[size] = 1;
        }
        CHECK_EQ(at[wanted - 1], (wanted - 1) % 4096 == 0);
    }
    CHECK(region_area_bytes() - before >= 8 * HK_MIB - 20000);
    CHECK(region_area_bytes() - before <= 11 * HK_MIB);
    CHECK(atomic_load(&hk_counters.map_calls) - calls < 32);
    CHECK_EQ(region_area_cover(area, hk_window.area_sizes[area] + 1), ENOMEM);
    CHECK_EQ(region_area_cover(area, SIZE_MAX), ENOMEM);
    CHECK_EQ(region_area_cover(area, 1), 0);
}

/* What of an area comes before the first border of a huge page. */
static size_t before_border(region_area_t area) {
    return hk_align_up(hk_window.areas[area], HK_SUPERSLAB_SIZE) - hk_window.areas[area];
}

/* Wherever the first superslab is: live bits have small pages besides those before it. */
static void borders(void) {
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(before_border(REGION_AREA_META), 512 * HK_KIB);
        CHECK_EQ(before_border(REGION_AREA_SLABS), 512 * HK_KIB);
        size_t unused = (region_frontier() - 1) * (HK_SUPERSLAB_SIZE / 128), small = before_border(REGION_AREA_LIVE);
        CHECK(small >= HK_MIB + unused - 64 * HK_KIB && small <= HK_MIB + unused);
        start_anew();
    }
}

static size_t asked(void) { return atomic_load(&hk_counters.huge_page_bytes); }

static void first_covers(void) {
    covered(REGION_AREA_META);
    covered(REGION_AREA_SLABS);
    covered(REGION_AREA_LIVE);
    CHECK_EQ(asked(), 0);
}

static void earned(region_area_t area) {
    size_t before = asked(), small = before_border(area);
    region_earn_huge_records(true);
    CHECK_EQ(region_area_cover(area, small), 0);
    CHECK_EQ(asked() - before, 0);
    CHECK_EQ(region_area_size(area), small);
    CHECK_EQ(region_area_cover(area, small + 1), 0);
    CHECK_EQ(region_area_size(area), small + HK_SUPERSLAB_SIZE);
    CHECK_EQ(region_area_cover(area, small + 2 * HK_SUPERSLAB_SIZE), 0);
    region_earn_huge_records(false);
    CHECK_EQ(region_area_cover(area, small + 2 * HK_SUPERSLAB_SIZE + 1), 0);
    CHECK(region_area_size(area) < small + 3 * HK_SUPERSLAB_SIZE);
    memset((void *)hk_window.areas[area], 1, region_area_size(area));
    size_t got = asked() - before; /* none where the kernel has no huge pages */
    CHECK(got == 0 || got == 2 * HK_SUPERSLAB_SIZE);
}

static void huge_pages(void) {
    earned(REGION_AREA_META);
    earned(REGION_AREA_SLABS);
    earned(REGION_AREA_LIVE);
    size_t before = asked();
    region_earn_huge_records(true);
    CHECK_EQ(region_area_cover(REGION_AREA_TABLE, 8 * HK_MIB), 0);
    CHECK_EQ(asked(), before);
}

enum { GONE_FROM = 0x100, GONE_TO = 0x4000 }; /* 1 TiB and 64 TiB, in units of 4 GiB */

/* Addresses from 1 to 64 TiB, which are all the random ones, do not exist: the hole of the kernel's is above. False
 * where no filter may be had. */
static bool forbid_addresses(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) + 4),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, GONE_FROM, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, GONE_TO, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* Addresses that there are not are no lack of memory. */
static void small_address_space(void) {
    bool tight = region_is_tight();
    if (HK_TSAN || !forbid_addresses())
        return;
    start_anew();
    CHECK(hk_window.base >> 32 >= GONE_TO || hk_window.base >> 32 < GONE_FROM);
    CHECK_EQ(region_is_tight(), tight);
}

int main(void) {
    start_region();
    apart();
    in_child(beginning_is_held);
    in_child(unknown_places);
    in_child(far_apart);
    in_child(somebody_there);
    in_child(somebody_behind_filling);
    in_child(ends);
    in_child(borders);
    in_child(first_covers);
    in_child(huge_pages);
    in_child(small_address_space);
    return CHECK_PASS;
}
