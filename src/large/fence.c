/* SPDX-License-Identifier: MIT */
#include "large/fence.h"

#include "base/bits.h"
#include "core/panic.h"
#include "large/run.h"
#include "region/region.h"
#include "superslab/superslab.h"
#include "sys/sys.h"

HK_SNAPSHOT size_t large_open_size(const void *block) {
    const large_run_t *run = large_run(block);
    return ((size_t)run->slot_count << HK_SLOT_SHIFT) - run->fenced_bytes;
}

/* What is mapped anew lies between pages of its superslab's kind. */
static bool open_pages(char *from, size_t size) {
    if (sys_unfence(from, size))
        return true;
    if (region_map_over(from, size) != 0)
        return false;
    if (superslab_view(map_slot(from) / HK_SLOTS_PER_SUPERSLAB).huge)
        (void)sys_advise_huge(from, size);
    return true;
}

static bool fence_slot(slot_t slot) {
    if (!slots_take_free(slot, 1))
        return false;
    if (sys_fence(map_slot_address(slot), HK_SLOT_SIZE))
        return true;
    slots_free(slot, 1, true);
    return false;
}

static bool unfence_end(char *block, large_run_t *run) {
    if (run->fenced_bytes > 0 && !open_pages(block + large_open_size(block), run->fenced_bytes))
        return false;
    run->fenced_bytes = 0;
    return true;
}

/* A run that comes out of a cache for a block of the size that it had has its fences. */
void large_fence(void *block, size_t size) {
    large_run_t *run = large_run(block);
    size_t open = hk_align_up(hk_max(size, 1), sys_page_size()), have = (size_t)run->slot_count << HK_SLOT_SHIFT;
    hk_assert(atomic_load_explicit(&run->state, memory_order_relaxed) == LARGE_LIVE);
    if (open != large_open_size(block) && unfence_end(block, run) && open < have &&
        sys_fence((char *)block + open, have - open))
        run->fenced_bytes = (uint32_t)(have - open);
    if (!run->fenced_before)
        run->fenced_before = fence_slot((slot_t)map_slot(block) - 1);
}

/* A slot that cannot be opened is lost. */
bool large_unfence(void *block) {
    large_run_t *run = large_run(block);
    if (run->fenced_before && open_pages((char *)block - HK_SLOT_SIZE, HK_SLOT_SIZE))
        slots_free((slot_t)map_slot(block) - 1, 1, false);
    run->fenced_before = false;
    return unfence_end(block, run);
}
