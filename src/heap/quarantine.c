/* SPDX-License-Identifier: MIT */
#include "heap/quarantine.h"

#include "base/relaxed.h"
#include "heap/flush.h"
#include "heap/lane.h"
#include "heap/seal.h"
#include "map/meta.h"
#include "sys/sys.h"

enum {
    QUEUE_BLOCKS = 512,
    QUEUE_BYTES_MAX = 1 << 20,
    QUEUE_RUN_SHARE = 64, /* what a run counts of its size: it waits without pages */
    CLASS_OF_RUNS = UINT8_MAX,
};

/* A ring of freed blocks, oldest at `first`; the heap's thread alone touches it. Kept in metadata memory. A fork may
 * come between any two steps, and the child must not find a place that holds nothing or a block that is elsewhere: so
 * places are written before they count, and stop counting at the far end before the near one moves on. It may lose
 * blocks. */
struct quarantine {
    uint32_t first, count;
    size_t bytes;
    void *blocks[QUEUE_BLOCKS];
    uint8_t classes[QUEUE_BLOCKS];
};

void hardened_init(int level) {
    seal_init();
    hk_hardened_level = level;
}

/* --- The queue ---------------------------------------------------------------------------------------------------- */

static size_t weight(const void *block, unsigned cls) {
    return cls == CLASS_OF_RUNS ? large_size(block) / QUEUE_RUN_SHARE : hk_class_info[cls].block_size;
}

static void give_back(heap_t *h, void *block, unsigned cls) {
    granule_t granule = map_granule(block);
    if (cls == CLASS_OF_RUNS)
        large_let_go(block);
    else if (cls < LANE_CLASSES)
        lane_push(h, cls, granule);
    else
        heap_give_batch(h, cls, &granule, 1, 0);
}

static void release_oldest(heap_t *h, struct quarantine *q, const void *caller) {
    void *block = q->blocks[q->first];
    unsigned cls = q->classes[q->first];
    q->bytes -= weight(block, cls);
    hk_write(q->count, q->count - 1);
    hk_write_release(q->first, (q->first + 1) % QUEUE_BLOCKS);
    if (cls == CLASS_OF_RUNS)
        seal_report_if_run_written(block, large_size(block), caller);
    else if (cls >= LANE_CLASSES && hk_unlikely(!seal_is_zero(block, hk_class_info[cls].block_size)))
        seal_report_written(block, hk_class_info[cls].block_size, caller);
    /* Behind a lock, which the fork takes too: what is given back in the child has left the queue there. */
    give_back(h, block, cls);
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
    struct quarantine *q = h != NULL ? queue_of(h) : NULL;
    if (q == NULL) {
        give_back(h, block, cls);
        return;
    }
    size_t bytes = weight(block, cls);
    while (q->count > 0 && (q->count == QUEUE_BLOCKS || q->bytes + bytes > QUEUE_BYTES_MAX))
        release_oldest(h, q, caller);
    uint32_t at = (q->first + q->count) % QUEUE_BLOCKS;
    hk_write(q->blocks[at], block);
    hk_write(q->classes[at], (uint8_t)cls);
    q->bytes += bytes;
    hk_write_release(q->count, q->count + 1);
}

void quarantine_put(heap_t *h, void *block, unsigned cls, const void *caller) { enqueue(h, block, cls, caller); }

void quarantine_put_run(heap_t *h, void *block, const void *caller) {
    sys_purge(block, large_size(block));
    enqueue(h, block, CLASS_OF_RUNS, caller);
}

void quarantine_drain(heap_t *h) {
    struct quarantine *q = h->quarantine;
    while (q != NULL && q->count > 0)
        release_oldest(h, q, NULL);
    hk_write(h->quarantine, NULL); /* before the lock in meta_free is released: a fork takes it too */
    meta_free(q, sizeof *q);
    lanes_drain(h);
}
