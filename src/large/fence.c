/* SPDX-License-Identifier: MIT */
#include "large/fence.h"

#include "base/bits.h"
#include "core/panic.h"
#include "large/run.h"
#include "superslab/superslab.h"
#include "sys/sys.h"

HK_SNAPSHOT size_t large_open_size(const void *block) {
    const large_run_t *run = large_run(block);
    return ((size_t)run->slot_count << HK_SLOT_SHIFT) - run->fenced_bytes;
}

static bool fence_slot(slot_t slot) {
    if (!slots_take_free(slot, 1))
        return false;
    if (sys_fence(map_slot_address(slot), HK_SLOT_SIZE))
        return true;
    slots_free(slot, 1, true);
    return false;
}

static void unfence_end(char *block, large_run_t *run) {
    if (run->fenced_bytes > 0)
        (void)sys_unfence(block + large_open_size(block), run->fenced_bytes);
    run->fenced_bytes = 0;
}

/* A run that comes out of a cache for a block of the size that it had has its fences. */
void large_fence(void *block, size_t size) {
    large_run_t *run = large_run(block);
    size_t open = hk_align_up(size, sys_page_size()), have = (size_t)run->slot_count << HK_SLOT_SHIFT;
    hk_assert(size > 0 && atomic_load_explicit(&run->state, memory_order_relaxed) == LARGE_LIVE);
    if (open != large_open_size(block)) {
        unfence_end(block, run);
        if (open < have && sys_fence((char *)block + open, have - open))
            run->fenced_bytes = (uint32_t)(have - open);
    }
    if (!run->fenced_before)
        run->fenced_before = fence_slot((slot_t)map_slot(block) - 1);
}

void large_unfence(void *block) {
    large_run_t *run = large_run(block);
    unfence_end(block, run);
    if (!run->fenced_before)
        return;
    run->fenced_before = false;
    bool zeros = sys_unfence((char *)block - HK_SLOT_SIZE, HK_SLOT_SIZE);
    slots_free((slot_t)map_slot(block) - 1, 1, !zeros);
}
