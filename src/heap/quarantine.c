/* SPDX-License-Identifier: MIT */
#include "heap/quarantine.h"

#include "base/relaxed.h"
#include "core/panic.h"
#include "heap/flush.h"
#include "heap/lane.h"
#include "heap/seal.h"
#include "heap/wipe.h"
#include "map/meta.h"

/* What runs count of their size. */
enum { QUEUE_RUN_SHARE = 64, QUEUE_RESIDENT_SHARE = WIPE_BYTES_MAX / QUEUE_BYTES_MAX };

void hardened_init(int level) {
    seal_init(level);
    hk_hardened_level = level;
}

/* --- The queue ---------------------------------------------------------------------------------------------------- */

static bool is_of_run(unsigned cls) { return cls >= QUEUE_CLASS_OF_RESIDENT; }

static size_t weight(granule_t block, unsigned cls) {
    hk_assert(is_of_run(cls) || cls < HK_CLASS_COUNT);
    if (!is_of_run(cls))
        return hk_class_info[cls].block_size;
    return large_size(map_granule_address(block)) /
           (cls == QUEUE_CLASS_OF_RUNS ? QUEUE_RUN_SHARE : QUEUE_RESIDENT_SHARE);
}

static void give_back(heap_t *h, granule_t block, unsigned cls, const void *caller) {
    if (is_of_run(cls))
        large_let_go(h != NULL ? &h->large : &heap_shared()->large, map_granule_address(block));
    else
        lane_give(h, cls, block, caller);
}

/* Blocks that go to a lane are looked at when they are handed out, or here. */
static void release_oldest(heap_t *h, struct quarantine *q, bool look, const void *caller) {
    hk_assert(q->count > 0 && q->count <= QUEUE_BLOCKS && q->first < QUEUE_BLOCKS);
    granule_t granule = queue_block(queue_oldest(q));
    unsigned cls = queue_class(queue_oldest(q));
    void *block = map_granule_address(granule);
    queue_pop(q, weight(granule, cls));
    if (is_of_run(cls))
        wipe_report_if_written(block, large_size(block), caller);
    else if (look && hk_unlikely(!seal_spots_are_zero(block, hk_class_info[cls].block_size)))
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
    bool stays = wipe_run(block, large_size(block));
    enqueue(h, block, stays ? QUEUE_CLASS_OF_RESIDENT : QUEUE_CLASS_OF_RUNS, caller);
}

void quarantine_drain(heap_t *h) {
    struct quarantine *q = h->quarantine;
    while (q != NULL && q->count > 0)
        release_oldest(h, q, true, NULL);
    hk_write(h->quarantine, NULL); /* before the lock in meta_free is released: a fork takes it too */
    meta_free(q, sizeof *q);
    lanes_drain(h);
}
