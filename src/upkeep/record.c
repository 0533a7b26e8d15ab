/* SPDX-License-Identifier: MIT */
#include "upkeep/record.h"

#include "base/bits.h"
#include "core/panic.h"
#include "sys/sys.h"

#include <string.h>

hk_lock_t hk_record_lock = HK_LOCK_INIT(HK_RANK_RECORD);

static void move_counts_locked(heap_class_stats_t *to, heap_class_stats_t *from) {
    hk_assert(hk_lock_is_held(&hk_record_lock));
    to->refilled += from->refilled;
    to->flushed += from->flushed;
    hk_add(to->freed_remote, from->freed_remote);
    hk_add(to->kept, from->kept);
    to->refills += from->refills;
    to->flushes += from->flushes;
    *from = (heap_class_stats_t){0}; /* no slabs and no array any more */
}

static void move_all_counts(heap_t *h) {
    heap_t *shared = heap_shared();
    hk_lock(&hk_record_lock);
    hk_lock(&h->lock);
    hk_lock(&shared->lock);
    for (unsigned cls = 0; cls < HK_MAGAZINE_COUNT; cls++) {
        move_counts_locked(&shared->class_stats[cls], &h->class_stats[cls]);
        hk_add(shared->front.magazines[cls].pushes, h->front.magazines[cls].pushes);
        h->front.magazines[cls].pushes = 0;
    }
    atomic_store_explicit(&h->freed_bytes, 0, memory_order_relaxed);
    hk_unlock(&shared->lock);
    hk_unlock(&h->lock);
    hk_unlock(&hk_record_lock);
}

/* What lies there is zero by now, or a key without bits: whoever looks at it meanwhile sees nothing either way. */
void heap_record_give_back(heap_t *h) {
    move_all_counts(h);
    size_t page = sys_page_size();
    uintptr_t from = hk_align_up((uintptr_t)h->front.magazines, page),
              to = hk_align_down((uintptr_t)h + HEAP_STRIDE, page);
    if (from < to)
        sys_purge((void *)from, to - from);
}
