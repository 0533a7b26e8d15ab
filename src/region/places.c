/* SPDX-License-Identifier: MIT */
#include "region/places.h"

#include "base/bits.h"
#include "region/area.h"
#include "region/index.h"
#include "sys/sys.h"

enum {
    WINDOW_TRIES = 64,
    AREA_TRIES = 64,
    RANDOM_WORDS = 12,
    START_SPREAD = 64, /* the first superslab used is one of these */
};

#define WINDOW_SUPERSLABS_MAX INDEX_SUPERSLABS_MAX /* 16 TiB */
#define WINDOW_SUPERSLABS_MIN ((size_t)1 << 9)     /* 1 GiB */
#define WINDOW_ALIGN          HK_GIB
#define PLACE_ALIGN           (64 * HK_KIB) /* of an area */
/* Runtimes that want fixed addresses want lower ones: CLISP has its heap at 16 to 32 TiB, ZGC at 4 to 20 TiB,
 * AddressSanitizer its shadow at 2 to 16 TiB. Programs and libraries lie above 85 TiB. The word of live bits for
 * address 0 lies up to half a TiB below the place that is drawn, a window reaches 16 TiB beyond it. */
#define RANDOM_LOWEST   ((uintptr_t)33 << 40)
#define RANDOM_SPAN     ((uintptr_t)32 << 40)
#define AREA_SMALL      (512 * HK_KIB) /* of the areas that may use huge pages, what comes before the first */
#define AREA_SMALL_LIVE HK_MIB         /* ... of live bits: those of the first 128 MiB */

/* --- Random numbers ----------------------------------------------------------------------------------------------- */

typedef struct dice {
    uint64_t words[RANDOM_WORDS];
    unsigned used;
} dice_t;

static uint64_t roll(dice_t *dice) {
    if (dice->used == RANDOM_WORDS)
        dice->used = 0;
    if (dice->used == 0)
        sys_random(dice->words, sizeof dice->words);
    return dice->words[dice->used++];
}

static uintptr_t random_address(dice_t *dice, size_t align) {
    return RANDOM_LOWEST + hk_align_down((uintptr_t)roll(dice) % RANDOM_SPAN, align);
}

/* --- Areas -------------------------------------------------------------------------------------------------------- */

/* Where an area begins behind a border of a huge page, never on one, so that the next border comes after what is to
 * have small pages. Live bits are used from those of the first superslab on. */
static size_t border_offset(region_area_t area, size_t first) {
    size_t unused = hk_align_down((first - 1) * window_area_share(area), PLACE_ALIGN);
    return HK_SUPERSLAB_SIZE - (area == REGION_AREA_LIVE ? AREA_SMALL_LIVE + unused : AREA_SMALL);
}

_Static_assert(START_SPREAD *(HK_SUPERSLAB_SIZE / 128) <= HK_SUPERSLAB_SIZE - AREA_SMALL_LIVE,
               "border_offset has room");

static void set_place(region_area_t area, uintptr_t from, size_t first) {
    size_t size = hk_window.superslab_max * window_area_share(area);
    hk_window.areas[area] = from + (window_may_be_huge(area) ? border_offset(area, first) : 0);
    hk_window.area_sizes[area] = hk_align_up(size, HK_SUPERSLAB_SIZE);
    if (area == REGION_AREA_LIVE)
        hk_window.live_origin = hk_window.areas[area] - hk_window.base / HK_SUPERSLAB_SIZE * window_area_share(area);
}

static bool is_within(uintptr_t address, uintptr_t from, size_t size) { return address - from < size; }

/* The ranges have an address in common. */
static bool meet(uintptr_t one, size_t one_size, uintptr_t other, size_t other_size) {
    return is_within(one, other, other_size) || is_within(other, one, one_size);
}

/* Whether an area, as large as it may grow, keeps clear of the superslabs and of the areas that were placed before. */
static bool is_clear(region_area_t area) {
    const uintptr_t at = hk_window.areas[area];
    const size_t size = hk_window.area_sizes[area], superslabs = hk_window.superslab_max << HK_SUPERSLAB_SHIFT;
    bool clear = !meet(at, size, hk_window.base, superslabs);
    if (REGION_HAS_LIVE_ORIGIN && area > REGION_AREA_LIVE)
        clear &= !is_within(hk_window.live_origin, at, size);
    if (REGION_HAS_LIVE_ORIGIN && area == REGION_AREA_LIVE)
        clear &= !is_within(hk_window.live_origin, hk_window.base, superslabs);
    for (region_area_t other = 0; other < area; other++) {
        clear &= !meet(at, size, hk_window.areas[other], hk_window.area_sizes[other]);
        if (REGION_HAS_LIVE_ORIGIN && area == REGION_AREA_LIVE)
            clear &= !is_within(hk_window.live_origin, hk_window.areas[other], hk_window.area_sizes[other]);
    }
    return clear;
}

static int map_live_origin(void) {
    int error = sys_map_at((void *)hk_window.live_origin, sys_page_size());
    if (error == 0)
        sys_name((void *)hk_window.live_origin, sys_page_size(), "hakmem-tables");
    return error;
}

/* Maps what the first superslab needs of an area: nobody else can take the place from here on. */
static int begin(region_area_t area, size_t first) {
    int error;
    if (area == REGION_AREA_STATE)
        error = region_area_cover_part(area, 0, index_end_bytes(first + 1));
    else if (area == REGION_AREA_HEAPS || area == REGION_AREA_META)
        error = region_area_cover_part(area, 0, 1);
    else
        error = area_cover_superslabs(area, first, 1);
    if (error == 0 && REGION_HAS_LIVE_ORIGIN && area == REGION_AREA_LIVE)
        error = map_live_origin();
    if (error != 0)
        area_end(area);
    return error;
}

static void end(region_area_t area) {
    area_end(area);
    if (REGION_HAS_LIVE_ORIGIN && area == REGION_AREA_LIVE)
        sys_unmap((void *)hk_window.live_origin, sys_page_size());
}

static int begin_at_random(region_area_t area, size_t first, dice_t *dice) {
    int error = EEXIST;
    for (int i = 0; i < AREA_TRIES && error == EEXIST; i++) {
        set_place(area, random_address(dice, window_may_be_huge(area) ? HK_SUPERSLAB_SIZE : PLACE_ALIGN), first);
        if (is_clear(area))
            error = begin(area, first);
    }
    return error;
}

/* All areas, at random places or one behind the other from `at` on. */
static int begin_all(uintptr_t at, size_t first, dice_t *dice) {
    for (region_area_t area = 0; area < REGION_AREA_COUNT; area++) {
        int error;
        if (dice != NULL) {
            error = begin_at_random(area, first, dice);
        } else {
            set_place(area, at, first);
            at = hk_align_up(hk_window.areas[area] + hk_window.area_sizes[area], HK_SUPERSLAB_SIZE);
            error = begin(area, first);
        }
        if (error == 0)
            continue;
        while (area-- > 0)
            end(area);
        return error;
    }
    return 0;
}

/* --- The window --------------------------------------------------------------------------------------------------- */

/* Maps the page before the first superslab: nobody who maps terabytes can lie over it before its first block is there.
 * What somebody has behind the page is stepped over as everywhere. */
static int hold(char *superslab) { return sys_map_none_at(superslab - sys_page_size(), sys_page_size()); }

/* Usable when nobody else has the page before the first superslab, and when the areas find places. */
static int window_try(uintptr_t base, size_t superslab_max, size_t first, dice_t *dice) {
    hk_window = (region_window_t){.base = base, .superslab_max = superslab_max};
    char *superslab = region_superslab_address(first);
    int error = hold(superslab);
    if (error != 0)
        return error;
    error = begin_all(base + (superslab_max << HK_SUPERSLAB_SHIFT), first, dice);
    if (error != 0)
        sys_unmap(superslab - sys_page_size(), sys_page_size());
    return error;
}

/* What a window takes with the areas behind its superslabs. */
static size_t whole_size(size_t superslab_max) {
    size_t size = superslab_max << HK_SUPERSLAB_SHIFT;
    for (region_area_t area = 0; area < REGION_AREA_COUNT; area++)
        size += hk_align_up(superslab_max * window_area_share(area), HK_SUPERSLAB_SIZE) + HK_SUPERSLAB_SIZE;
    return size + WINDOW_ALIGN;
}

/* RLIMIT_AS counts a hole as long as it is mapped, and is less than the smallest. The addresses below what the kernel
 * maps next are mostly nobody's. The window has no fewer than may be mapped, and leaves as many above for others. */
static bool window_below(size_t first) {
    void *page = sys_map_none(sys_page_size());
    if (page == NULL)
        return false;
    sys_unmap(page, sys_page_size());
    uintptr_t base = hk_align_down((uintptr_t)page, WINDOW_ALIGN) - 4 * WINDOW_ALIGN;
    for (int i = 0; i < WINDOW_TRIES; i++)
        if (window_try(base -= WINDOW_ALIGN, 2 * WINDOW_SUPERSLABS_MIN, first, NULL) == 0)
            return true;
    return false;
}

/* A hole that the kernel knows of: for tools and kernels with an unusual address space (Valgrind, 39-bit aarch64). */
static bool window_from_kernel(size_t first) {
    for (size_t count = WINDOW_SUPERSLABS_MAX; count >= WINDOW_SUPERSLABS_MIN; count /= 2) {
        void *hole = sys_map_none(whole_size(count));
        if (hole == NULL)
            continue;
        sys_unmap(hole, whole_size(count));
        uintptr_t base = hk_align_up((uintptr_t)hole, WINDOW_ALIGN);
        if (window_try(base, count, first, NULL) == 0)
            return true;
    }
    return window_below(first);
}

int places_find(size_t *first) {
    dice_t dice = {.used = 0};
    int error = EEXIST; /* after ENOMEM, as in a small address space, no other place is better */
    for (int i = 0; i < WINDOW_TRIES && error == EEXIST && !HK_TSAN; i++) {
        *first = 1 + (size_t)roll(&dice) % START_SPREAD;
        error = window_try(random_address(&dice, WINDOW_ALIGN), WINDOW_SUPERSLABS_MAX, *first, &dice);
    }
    if (error == 0)
        return 0;
    *first = 1;
    if (window_from_kernel(*first))
        return 0;
    hk_window = (region_window_t){0};
    return ENOMEM;
}
