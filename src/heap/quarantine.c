/* SPDX-License-Identifier: MIT */
#include "heap/quarantine.h"

#include "base/relaxed.h"
#include "core/panic.h"
#include "heap/flush.h"
#include "heap/lane.h"
#include "heap/seal.h"
#include "map/meta.h"
#include "sys/sys.h"

enum { QUEUE_RUN_SHARE = 64 /* what a run counts of its size: it waits without pages */ };

void hardened_init(int level) {
    seal_init();
    hk_hardened_level = level;
}

/* --- The queue ---------------------------------------------------------------------------------------------------- */

static size_t weight(granule_t block, unsigned cls) {
    hk_assert(cls == QUEUE_CLASS_OF_RUNS || cls < HK_CLASS_COUNT);
    return cls == QUEUE_CLASS_OF_RUNS ? large_size(map_granule_address(block)) / QUEUE_RUN_SHARE
                                      : hk_class_info[cls].block_size;
}

static void give_back(heap_t *h, granule_t block, unsigned cls, const void *caller) {
    if (cls == QUEUE_CLASS_OF_RUNS)
        large_let_go(map_granule_address(block));
    else if (cls < LANE_CLASSES)
        lane_give(h, cls, block, caller);
    else
        heap_give_batch(h, cls, &block, 1, 0);
}

/* Blocks that go to a lane are looked at when they are handed out, or here. */
static void release_oldest(heap_t *h, struct quarantine *q, bool look, const void *caller) {
    hk_assert(q->count > 0 && q->count <= QUEUE_BLOCKS && q->first < QUEUE_BLOCKS);
    granule_t granule = queue_block(queue_oldest(q));
    unsigned cls = queue_class(queue_oldest(q));
    void *block = map_granule_address(granule);
    queue_pop(q, weight(granule, cls));
    if (cls == QUEUE_CLASS_OF_RUNS)
        seal_report_if_run_written(block, large_size(block), caller);
    else if ((look || cls >= LANE_CLASSES) && hk_unlikely(!seal_long_is_zero(block, hk_class_info[cls].block_size)))
        seal_report_written(block, hk_class_info[cls].block_size, caller);
    /* Behind a lock, which the fork takes too: what is given back in the child has left the queue there. */
    give_back(h, granule, cls, caller);
}

static struct quarantine *queue_of(heap_t *h) {
    struct quarantine *q = h->quarantine;
    if (q != NULL || (q = meta_alloc(sizeof *q)) == NULL)
        return q;
    q->first = q->count = 0;
    q->bytes = 0;
    hk_write_release(h->quarantine, q);
    return q;
}

/* `h` may be NULL for a run: then it does not wait. */
static void enqueue(heap_t *h, void *block, unsigned cls, const void *caller) {
    hk_assert(block != NULL);
    struct quarantine *q = h != NULL ? queue_of(h) : NULL;
    granule_t granule = map_granule(block);
    if (q == NULL) {
        give_back(h, granule, cls, caller);
        return;
    }
    size_t bytes = weight(granule, cls);
    while (q->count > 0 && !queue_has_room(q, bytes))
        release_oldest(h, q, false, caller);
    queue_push(q, granule, cls, bytes);
}

void quarantine_put(heap_t *h, void *block, unsigned cls, const void *caller) { enqueue(h, block, cls, caller); }

void quarantine_put_run(heap_t *h, void *block, const void *caller) {
    sys_purge(block, large_size(block));
    enqueue(h, block, QUEUE_CLASS_OF_RUNS, caller);
}

void quarantine_drain(heap_t *h) {
    struct quarantine *q = h->quarantine;
    while (q != NULL && q->count > 0)
        release_oldest(h, q, true, NULL);
    hk_write(h->quarantine, NULL); /* before the lock in meta_free is released: a fork takes it too */
    meta_free(q, sizeof *q);
    lanes_drain(h);
}
