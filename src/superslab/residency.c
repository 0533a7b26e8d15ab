/* SPDX-License-Identifier: MIT */
#include "superslab/residency.h"

#include "core/panic.h"
#include "region/region.h"
#include "sys/sys.h"

residency_t residency_of(const char *from, size_t size) {
    hk_assert(size > 0 && size <= HK_SUPERSLAB_SIZE);
    unsigned char pages[HK_SUPERSLAB_SIZE / 4096];
    if (sys_resident(from, size, pages) != 0)
        return RESIDENCY_UNKNOWN;
    size_t count = size / sys_page_size(), resident = 0;
    for (size_t i = 0; i < count; i++)
        resident += pages[i] & 1;
    return resident == 0 ? RESIDENCY_NONE : resident * 8 < count * 7 ? RESIDENCY_SOME : RESIDENCY_FULL;
}
