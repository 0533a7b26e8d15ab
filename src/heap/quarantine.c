/* SPDX-License-Identifier: MIT */
#include "heap/quarantine.h"

#include "base/relaxed.h"
#include "core/panic.h"
#include "heap/lane.h"
#include "heap/seal.h"
#include "heap/wipe.h"
#include "large/fence.h"
#include "limit/limit.h"
#include "map/meta.h"
#include "sys/linked.h"
#include "sys/sys.h"
#include "sys/tags.h"

#include <stdatomic.h>

/* What runs count of their size, those that have their pages at level 2; at level 3 these count in full. */
enum { QUEUE_RUN_SHARE = 64, QUEUE_RESIDENT_SHARE = WIPE_BYTES_MAX / QUEUE_BYTES_AT_2 };

/* Of HAKMEM_QUARANTINE, what no queue has. Relaxed: it is only a number. */
static _Atomic size_t bytes_left;

static bool is_alone(void) {
    const char *known = linked_single_threaded();
    return (known != NULL && *known != 0) || sys_thread_count() == 1;
}

void hardened_init(int level, size_t bytes) {
    seal_init(level);
    tags_init(is_alone);
    hk_hardened_level = level;
    atomic_store_explicit(&bytes_left, bytes, memory_order_relaxed);
}

/* --- The queue ---------------------------------------------------------------------------------------------------- */

static bool is_of_run(unsigned cls) { return cls >= QUEUE_CLASS_OF_RESIDENT; }

static size_t weight(granule_t block, unsigned cls) {
    hk_assert(is_of_run(cls) || cls < HK_CLASS_COUNT);
    if (!is_of_run(cls))
        return hk_class_info[cls].block_size;
    size_t resident_share = hk_hardened_level >= 3 ? 1 : QUEUE_RESIDENT_SHARE;
    return large_size(map_granule_address(block)) / (cls == QUEUE_CLASS_OF_RUNS ? QUEUE_RUN_SHARE : resident_share);
}

static void give_back(heap_t *h, granule_t block, unsigned cls, const void *caller) {
    if (is_of_run(cls)) {
        large_let_go(map_granule_address(block), cls == QUEUE_CLASS_OF_RESIDENT);
        return;
    }
    queue_count_out(h, cls);
    lane_give(h, cls, block, caller);
}

static void push(heap_t *h, struct quarantine *q, granule_t block, unsigned cls, size_t bytes) {
    if (cls == QUEUE_CLASS_OF_RESIDENT)
        hk_add(h->waiting_bytes, large_size(map_granule_address(block)));
    queue_push(q, block, cls, bytes);
}

static void pop_oldest(heap_t *h, struct quarantine *q) {
    hk_assert(q->count > 0 && q->count <= q->places && q->first < q->places);
    granule_t block = queue_block(queue_oldest(q));
    unsigned cls = queue_class(queue_oldest(q));
    if (cls == QUEUE_CLASS_OF_RESIDENT)
        hk_add(h->waiting_bytes, -large_size(map_granule_address(block)));
    queue_pop(q, weight(block, cls));
}

/* Blocks that go to a lane are looked at when they are handed out, or here. */
static void release_oldest(heap_t *h, struct quarantine *q, bool look, const void *caller) {
    granule_t granule = queue_block(queue_oldest(q));
    unsigned cls = queue_class(queue_oldest(q));
    void *block = map_granule_address(granule);
    pop_oldest(h, q);
    if (is_of_run(cls))
        wipe_report_if_written(block, large_open_size(block), caller);
    else if (look && hk_unlikely(!seal_spots_are_zero(block, hk_class_info[cls].block_size)))
        seal_report_written(block, hk_class_info[cls].block_size, caller);
    /* Behind a lock, which the fork takes too: what is given back in the child has left the queue there. */
    give_back(h, granule, cls, caller);
}

/* --- How much it holds -------------------------------------------------------------------------------------------- */

static size_t record_bytes(uint32_t places) { return sizeof(struct quarantine) + places * sizeof(uint64_t); }

static uint32_t most_places(size_t bytes) { return (uint32_t)((bytes - sizeof(struct quarantine)) / sizeof(uint64_t)); }

static struct quarantine *queue_of(heap_t *h) {
    struct quarantine *q = h->quarantine;
    const uint32_t places = most_places(meta_good_size(record_bytes(QUEUE_PLACES_MIN)));
    if (q != NULL || (q = meta_alloc(record_bytes(places))) == NULL)
        return q;
    *q = (struct quarantine){.places = places};
    q->bytes_max = hk_hardened_level >= 3 ? QUEUE_BYTES_MIN : QUEUE_BYTES_AT_2;
    hk_write_release(h->quarantine, q);
    return q;
}

/* Takes `bytes` of what is left, unless less than that would be. */
static bool claim(size_t bytes) {
    size_t left = atomic_load_explicit(&bytes_left, memory_order_relaxed);
    while (left / 2 >= bytes)
        if (atomic_compare_exchange_weak_explicit(&bytes_left, &left, left - bytes, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void give_up(const struct quarantine *q) {
    if (hk_hardened_level >= 3)
        atomic_fetch_add_explicit(&bytes_left, q->bytes_max - QUEUE_BYTES_MIN, memory_order_relaxed);
}

/* A record with twice the places takes the queue's place, where there is memory for one. */
static struct quarantine *widen(heap_t *h, struct quarantine *q) {
    const size_t size = meta_good_size(record_bytes(q->places));
    struct quarantine *wide = size < QUEUE_MAX ? meta_alloc(2 * size) : NULL;
    if (wide == NULL)
        return q;
    *wide = *q;
    wide->first = 0;
    wide->places = most_places(2 * size);
    for (uint32_t i = 0; i < q->count; i++)
        wide->blocks[i] = q->blocks[queue_place(q, q->first + i)];
    hk_write_release(h->quarantine, wide); /* before the lock in meta_free: see quarantine_drain */
    meta_free(q, record_bytes(q->places));
    return wide;
}

/* So that `bytes` more have room, if they can. At level 2 a queue stays as it is. */
static struct quarantine *grow(heap_t *h, struct quarantine *q, size_t bytes) {
    if (hk_hardened_level < 3 || queue_has_room(q, bytes))
        return q;
    if (q->count == q->places)
        q = widen(h, q);
    while (q->bytes + bytes > q->bytes_max && claim(q->bytes_max))
        q->bytes_max *= 2;
    q->is_grown = !queue_has_room(q, bytes);
    return q;
}

/* `h` may be NULL for a run: then it does not wait. */
void quarantine_put(heap_t *h, void *block, unsigned cls, const void *caller) {
    hk_assert(block != NULL);
    struct quarantine *q = h != NULL ? queue_of(h) : NULL;
    granule_t granule = map_granule(block);
    if (!is_of_run(cls))
        queue_count_in(h, cls);
    if (q == NULL) {
        give_back(h, granule, cls, caller);
        return;
    }
    size_t bytes = weight(granule, cls);
    q = grow(h, q, bytes);
    while (q->count > 0 && !queue_has_room(q, bytes))
        release_oldest(h, q, false, caller);
    push(h, q, granule, cls, bytes);
}

void quarantine_put_run(heap_t *h, void *block, const void *caller) {
    bool stays = wipe_run(block, large_open_size(block));
    quarantine_put(h, block, stays ? QUEUE_CLASS_OF_RESIDENT : QUEUE_CLASS_OF_RUNS, caller);
}

/* Whether the oldest block, of `bytes`, has waited for as long as it may: the next one of its kind would take its place
 * in a queue that cannot be larger, and half of that goes on waiting. */
static bool has_waited(const struct quarantine *q, size_t bytes) {
    return !queue_has_room(q, bytes) && (hk_hardened_level < 3 || q->is_grown) && q->bytes - bytes >= q->bytes_max / 2;
}

static void *take_oldest_locked(heap_t *h, struct quarantine *q, size_t size, size_t align) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(hk_is_pow2(align));
    if (q->count == 0 || !is_of_run(queue_class(queue_oldest(q))))
        return NULL;
    granule_t granule = queue_block(queue_oldest(q));
    void *block = map_granule_address(granule);
    if (!has_waited(q, weight(granule, queue_class(queue_oldest(q)))) ||
        large_size(block) != hk_align_up(size, HK_SLOT_SIZE) || (uintptr_t)block % align != 0 || !limit_allows(size))
        return NULL;
    pop_oldest(h, q);
    large_take_held(&h->large, block);
    return block;
}

/* Under the lock, as a signal handler that forks here would leave its child a block twice: the child sees the lock. */
void *quarantine_take_run(heap_t *h, size_t size, size_t align) {
    if (h == NULL || h->quarantine == NULL)
        return NULL;
    heap_lock(h);
    void *block = take_oldest_locked(h, h->quarantine, size, align);
    heap_unlock(h);
    return block;
}

void quarantine_drain(heap_t *h) {
    struct quarantine *q = h->quarantine;
    while (q != NULL && q->count > 0)
        release_oldest(h, q, true, NULL);
    hk_write(h->quarantine, NULL); /* before the lock in meta_free is released: a fork takes it too */
    if (q != NULL) {
        give_up(q);
        meta_free(q, record_bytes(q->places));
    }
    lanes_drain(h);
}
