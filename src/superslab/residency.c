/* SPDX-License-Identifier: MIT */
#include "superslab/residency.h"

#include "core/panic.h"
#include "region/region.h"
#include "sys/sys.h"

typedef struct share {
    size_t count, resident; /* pages */
} share_t;

static residency_t said_of(share_t s) {
    return s.resident == 0 ? RESIDENCY_NONE : s.resident * 8 < s.count * 7 ? RESIDENCY_SOME : RESIDENCY_FULL;
}

residency_t residency_of(const char *from, size_t size) {
    hk_assert(size > 0 && size <= HK_SUPERSLAB_SIZE);
    unsigned char pages[HK_SUPERSLAB_SIZE / 4096];
    if (sys_resident(from, size, pages) != 0)
        return RESIDENCY_UNKNOWN;
    share_t all = {.count = size / sys_page_size()};
    for (size_t i = 0; i < all.count; i++)
        all.resident += pages[i] & 1;
    return said_of(all);
}

residency_t residency_of_slots(const char *from, uint32_t mask) {
    unsigned char pages[HK_SUPERSLAB_SIZE / 4096];
    if (sys_resident(from, HK_SUPERSLAB_SIZE, pages) != 0)
        return RESIDENCY_UNKNOWN;
    share_t all = {.count = HK_SUPERSLAB_SIZE / sys_page_size()}, these = {0};
    for (size_t i = 0; i < all.count; i++) {
        const bool counts = mask >> (i * sys_page_size() >> HK_SLOT_SHIFT) & 1;
        all.resident += pages[i] & 1;
        these.count += counts;
        these.resident += counts && (pages[i] & 1);
    }
    if (said_of(all) == RESIDENCY_FULL)
        return mask != 0 ? said_of(these) : RESIDENCY_UNKNOWN;
    return said_of(all);
}
