/* SPDX-License-Identifier: MIT */
#include "superslab/residency.h"

#include "core/panic.h"
#include "region/region.h"
#include "sys/sys.h"

static residency_t residency_in(const char *from, size_t size, uint32_t mask) {
    hk_assert(size > 0 && size <= HK_SUPERSLAB_SIZE);
    unsigned char pages[HK_SUPERSLAB_SIZE / 4096];
    if (sys_resident(from, size, pages) != 0)
        return RESIDENCY_UNKNOWN;
    size_t count = 0, resident = 0;
    for (size_t i = 0; i < size / sys_page_size(); i++)
        if (mask >> (i * sys_page_size() >> HK_SLOT_SHIFT) & 1) {
            count++;
            resident += pages[i] & 1;
        }
    return resident == 0 ? RESIDENCY_NONE : resident * 8 < count * 7 ? RESIDENCY_SOME : RESIDENCY_FULL;
}

residency_t residency_of(const char *from, size_t size) { return residency_in(from, size, UINT32_MAX); }

residency_t residency_of_slots(const char *from, uint32_t mask) {
    return mask != 0 ? residency_in(from, HK_SUPERSLAB_SIZE, mask) : RESIDENCY_UNKNOWN;
}
