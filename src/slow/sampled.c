/* SPDX-License-Identifier: MIT */
#include "slow/sampled.h"

#include "large/huge.h"
#include "slow/tick.h"

/* With the seal of hardened blocks. */
static size_t usable_size(const void *block, uint32_t entry) {
    void *start;
    size_t size;
    if (map_is_run(entry))
        return large_size(block);
    if (entry != 0)
        return hk_class_info[entry & HK_MAP_CLASS_MAX].block_size;
    return huge_find(block, &start, &size) ? size : 0;
}

void *heap_sampled(heap_t *h, void *block, size_t size, const void *caller) {
    const uint32_t entry = map_lookup(block);
    if (block == NULL)
        return NULL;
    const sample_block_t sample = {
        .address = block,
        .size = size,
        .usable = usable_size(block, entry),
        .heap = h != NULL ? h->front.id : HK_OWNER_SHARED,
        .has_bit = entry != 0 && entry != HK_MAP_RUN_HEAD,
    };
    sample_take(&sample, h != NULL ? &h->draw : NULL, caller);
    return block;
}

/* Bytes that it had before have had their chance to be sampled: how large a chance is known where no thread has an
 * interval of its own. */
void heap_sample_resized(heap_t *h, void *old, void *block, size_t old_size, size_t size, const void *caller) {
    if (!sample_was_ever_on())
        return;
    if (block != old) {
        (void)sample_close(old, heap_draw(h));
        (void)heap_sampled_if(heap_charge(h, size, false), h, block, size, caller);
        return;
    }
    const bool anew = sample_has_paces();
    const size_t charge = anew ? size : size > old_size ? size - old_size : 0;
    const bool due = charge > 0 && heap_charge(h, charge, false);
    if (!sample_resize(block, size, usable_size(block, map_lookup(block)), anew) && due)
        (void)heap_sampled(h, block, size, caller);
}
