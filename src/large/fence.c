/* SPDX-License-Identifier: MIT */
#include "large/fence.h"

#include "base/bits.h"
#include "core/panic.h"
#include "large/run.h"
#include "superslab/superslab.h"
#include "sys/sys.h"

HK_SNAPSHOT size_t large_open_size(const void *block) {
    const large_run_t *run = large_run(block);
    const unsigned alone = run->alone;
    return alone != 0 ? hk_class_info[alone - 1].block_size
                      : ((size_t)run->slot_count << HK_SLOT_SHIFT) - run->fenced_bytes;
}

static bool unfence_end(char *block, large_run_t *run) {
    if (run->fenced_bytes > 0 && !slots_open(block + large_open_size(block), run->fenced_bytes))
        return false;
    run->fenced_bytes = 0;
    return true;
}

/* A run that waited, for a block of the size that it had, has its fences. */
void large_fence(void *block, size_t size) {
    large_run_t *run = large_run(block);
    size_t open = hk_align_up(hk_max(size, 1), sys_page_size()), have = (size_t)run->slot_count << HK_SLOT_SHIFT;
    hk_assert(atomic_load_explicit(&run->state, memory_order_relaxed) == LARGE_LIVE);
    if (open != large_open_size(block) && unfence_end(block, run) && open < have &&
        sys_fence((char *)block + open, have - open))
        run->fenced_bytes = have - open;
    if (!run->fenced_before)
        run->fenced_before = slots_fence((slot_t)map_slot(block) - 1);
}

bool large_unfence(void *block) {
    large_run_t *run = large_run(block);
    if (run->fenced_before)
        slots_unfence((slot_t)map_slot(block) - 1);
    run->fenced_before = false;
    return unfence_end(block, run);
}
