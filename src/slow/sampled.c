/* SPDX-License-Identifier: MIT */
#include "slow/sampled.h"

#include "slow/blocks.h"
#include "slow/tick.h"

void *heap_sampled(heap_t *h, void *block, size_t size, const void *caller) {
    const uint32_t entry = map_lookup(block);
    if (block == NULL)
        return NULL;
    const sample_block_t sample = {
        .address = block,
        .size = size,
        .usable = heap_block_size(block),
        .heap = h != NULL ? h->front.id : HK_OWNER_SHARED,
        .has_bit = entry != 0 && entry != HK_MAP_RUN_HEAD,
    };
    sample_take(&sample, h != NULL ? &h->draw : NULL, caller);
    return block;
}

/* How large a chance the bytes had that it had before is known where no thread has an interval of its own. */
void heap_sample_resized(heap_t *h, void *old, void *block, size_t old_size, size_t size, const void *caller) {
    if (!sample_was_ever_on())
        return;
    if (block != old) {
        (void)sample_close(old, heap_draw(h));
        (void)heap_sampled_if(heap_charge(h, size, false), h, block, size, caller);
        return;
    }
    const bool anew = sample_has_paces() || old_size == 0;
    const size_t charge = anew ? size : size > old_size ? size - old_size : 0;
    const bool due = charge > 0 && heap_charge(h, charge, false);
    if (!sample_resize(block, size, heap_block_size(block), anew) && due)
        (void)heap_sampled(h, block, size, caller);
}
