/* SPDX-License-Identifier: MIT */
#include "large/filling.h"

#include "base/bits.h"
#include "core/options.h"
#include "region/region.h"
#include "sys/sys.h"

enum {
    LOOK_MAX = 16,    /* superslabs of a run that are looked at */
    EXPECT_AFRESH = 8 /* of the runs expected to be filled, one in so many is taken without */
};
#define SMALLEST (2 * HK_SUPERSLAB_SIZE)

/* Size of the largest run that is known to be filled; hints, so no order between them matters. */
static _Atomic size_t filled_bytes;
static _Atomic unsigned expected_count;

typedef enum share { UNKNOWN, NONE, SOME, FULL } share_t;

/* Of at most a superslab, from a page on. */
static share_t share_resident(const char *from, size_t size) {
    unsigned char pages[HK_SUPERSLAB_SIZE / 4096];
    if (sys_resident(from, size, pages) != 0)
        return UNKNOWN;
    size_t count = size / sys_page_size(), resident = 0;
    for (size_t i = 0; i < count; i++)
        resident += pages[i] & 1;
    return resident == 0 ? NONE : resident * 8 < count * 7 ? SOME : FULL;
}

bool filling_is_full(const char *from, size_t size) { return share_resident(from, size) == FULL; }

void filling_observe(const char *start, size_t size) {
    if (size < SMALLEST || hk_option(HK_OPT_HUGE) != HK_HUGE_AUTO)
        return;
    const char *from = (const char *)hk_align_up((uintptr_t)start, HK_SUPERSLAB_SIZE);
    size_t count = (size_t)(start + size - from) >> HK_SUPERSLAB_SHIFT;
    size_t step = count > LOOK_MAX ? count / LOOK_MAX : 1, full = 0, some = 0;
    for (size_t i = 0; i < count; i += step) {
        share_t share = share_resident(from + (i << HK_SUPERSLAB_SHIFT), HK_SUPERSLAB_SIZE);
        full += share == FULL;
        some += share == SOME;
    }
    /* One is where the filling ended. */
    size_t known = atomic_load_explicit(&filled_bytes, memory_order_relaxed);
    if (full > 0 && some <= 1 && size > known)
        atomic_store_explicit(&filled_bytes, size, memory_order_relaxed);
    else if (some > 1 && size / 2 < known)
        atomic_store_explicit(&filled_bytes, size / 4, memory_order_relaxed);
}

bool filling_expected(size_t size) {
    if (size < SMALLEST || size / 2 > atomic_load_explicit(&filled_bytes, memory_order_relaxed))
        return false;
    return atomic_fetch_add_explicit(&expected_count, 1, memory_order_relaxed) % EXPECT_AFRESH != EXPECT_AFRESH - 1;
}
