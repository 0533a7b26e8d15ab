/* SPDX-License-Identifier: MIT
 *
 * hardened.h: HAKMEM_SAFE=2 and 3.
 *
 * Magazines stay empty, so that every call takes the slow path and comes here.
 *   2  free makes a block of a slab zeros, and it waits in its lane (heap/lane.h): when it is handed out again it must
 *      still be zeros, as far as is looked: a write after free is found. Its last word is its seal (heap/seal.h): a
 *      write behind it, or before it, is found when it or its neighbour is freed or resized. A large block (above 256
 *      KiB less the seal) waits in a queue (heap/quarantine.h), and must read as zeros when it leaves it (heap/wipe.h).
 *      A huge one is unmapped at once: a write to it faults.
 *   3  besides, each byte from what was asked for to the seal carries a pattern, and what lies behind a large block is
 *      known too: an overflow by one byte is found at free. Each block waits in the queue before it comes to its lane.
 *      Of a sampled block the stack of its free is kept for reports (sample/ended.h).
 */
#pragma once

#include "heap/lane.h"
#include "heap/quarantine.h"
#include "heap/seal.h"
#include "sys/libc_doors.h"
#include "sys/tags.h"

enum { STAY_SHARE = 8 /* of a long block, at most, that is left behind it when it shrinks in place */ };

/* What is handed out reads as zeros, but for the slack and the seal: as far as was looked, and where it is asked for.
 * `h` may be NULL. NULL with errno ENOMEM on failure. */
void *hardened_alloc(heap_t *h, size_t align, size_t size, const void *caller);
void *hardened_calloc(heap_t *h, size_t align, size_t size, const void *caller);

/* Frees the block if it is live, and of a slab. */
bool hardened_free_live(void *block, const void *caller);

/* Frees a block of a slab whose live bit is clear by now; and one that is zeros, too. `entry` is the slot table's, or
 * its class alone. */
void hardened_free_dead(void *block, uint32_t entry, const void *caller);
void hardened_put_cleared(void *block, uint32_t entry, const void *caller);

void *hardened_realloc(void *block, size_t old_size, size_t size, const void *caller);

/* For reports, at level 3: this call frees the block, which was sampled until now or not. */
void hardened_keep_free(heap_t *h, const void *block, bool was_sampled, const void *caller);

/* Frees the large block at `block`, the start of a run. */
void hardened_free_large(heap_t *h, void *block, const void *caller);

/* Frees the huge block that begins at `block`, or reports; false when there is none. */
bool hardened_free_huge(heap_t *h, void *block, const void *caller);

/* For explicit heaps, whose blocks do not wait. With room for the seal, what `size` becomes; seals a block of a slab
 * after a look that it is still zeros; the same for a large one, false when the kernel has no memory to open its fence;
 * whether its seal is whole, reports otherwise; the same for a block of a slab at its free, which then is zeros. */
size_t hardened_room(size_t size);
void hardened_begin_block(void *block, unsigned cls, bool never_used, size_t size, const void *caller);
bool hardened_begin_big(void *block, size_t size, const void *caller);
bool hardened_is_whole(const void *block, size_t block_size, const void *caller);
bool hardened_end(void *block, unsigned cls, const void *caller);

/* What the program may use of a block; 0 where its seal is broken and the size is not known. And how much of it is
 * moved when it moves. */
size_t hardened_size(const void *block, size_t block_size);
size_t hardened_held(const void *block, size_t block_size);

/* Memory is out when a block has to shrink: it stays. NULL when it was overwritten, which is reported. */
void *hardened_stay(void *block, size_t size, int saved_errno, const void *caller);

/* The largest size that takes no larger block than `size` does; 0: that is 0. */
size_t hardened_good_size(size_t size);

/* Whether it was asked for with this size: exactly at level 3; at level 2 with this or a smaller one, as far as the
 * program may use it. */
bool hardened_size_fits(const void *block, size_t block_size, size_t align, size_t size);

/* The block stays, and is one of `size` bytes from here on; false when it cannot. */
bool hardened_expand(void *block, size_t block_size, size_t size, const void *caller);

/* --- Without a lock and without a call: what front/ is to other heaps --------------------------------------------- */

/* Live bits change by atomic operations where there may be another thread: a clear one proves that a block is free. */
HK_INLINE void hardened_set_live(granule_t granule, size_t cls) {
    if (cls >= HK_MAP_CLASS_APART)
        map_set_live_apart(granule);
    else if (libc_is_single_threaded())
        map_set_live(granule);
    else
        map_set_live_shared(granule);
}

HK_INLINE bool hardened_clear_live(granule_t granule) {
    return libc_is_single_threaded() ? map_clear_live(granule) : map_clear_live_shared(granule);
}

/* A block of a slab, sealed, gets a tag by chance that neither neighbour in the slab has. */
void hardened_tag(void *block, unsigned cls);

/* Nobody has written to the block since it was taken from its lane, or that has been reported. */
void *hardened_hand_out(void *block, unsigned cls, size_t size);

/* Reports that somebody has. */
HK_COLD void *hardened_hand_out_written(void *block, unsigned cls, size_t size, const void *caller);

/* Hands out the last block that is ready. `exact` says that the level is 3. `tiny` says that the block is tiny: then
 * all but the common case is a tail call, and the function needs no frame. `is_zero` is one of those of heap/seal.h. */
HK_INLINE void *hardened_take(lane_t *lane, size_t cls, size_t size, bool exact, bool tiny, const void *caller,
                              bool is_zero(const void *, size_t)) {
    size_t block_size = tiny ? class_tiny_size(cls) : hk_class_info[cls].block_size;
    void *block = lane_take(lane);
    if (hk_unlikely(!is_zero(block, block_size)))
        return hardened_hand_out_written(block, (unsigned)cls, size, caller);
    size_t slack = block_size - SEAL_BYTES - size;
    if (exact && tiny && hk_unlikely(!seal_slack_is_short(slack, size)))
        return hardened_hand_out(block, (unsigned)cls, size);
    if (exact && tiny)
        seal_fill_short(block, block_size, slack);
    else if (exact)
        seal_fill_slack(block, block_size, size);
    seal_set(block, block_size, size);
    if (tags_are_on())
        hardened_tag(block, (unsigned)cls);
    hardened_set_live(map_granule(block), cls);
    return block;
}

/* A lane that has blocks for a size that has been charged; NULL for none, or when there is something else to do. */
HK_INLINE lane_t *hardened_lane_soon(heap_front_t *front, size_t size, size_t *cls) {
    lanes_t *all = front->lanes;
    if (hk_unlikely(size - 1 >= HK_TINY_MAX - SEAL_BYTES || all == NULL || hk_read(front->countdown) < 0))
        return NULL;
    *cls = (size + SEAL_BYTES - 1) >> HK_GRANULE_SHIFT;
    lane_t *lane = &all->lanes[*cls];
    HK_OPAQUE(lane); /* one address for all that follows */
    return hk_likely(lane->ready > 0) ? lane : NULL;
}

/* As hardened_lane_soon, of longer blocks that lie in slabs. */
HK_INLINE lane_t *hardened_lane_mid(heap_front_t *front, size_t size, size_t *cls) {
    lanes_t *all = front->lanes;
    const size_t least = HK_TINY_MAX + 1 - SEAL_BYTES;
    if (hk_unlikely(size - least > HK_MID_MAX - SEAL_BYTES - least || all == NULL || hk_read(front->countdown) < 0))
        return NULL;
    *cls = class_of_mid(size + SEAL_BYTES - 1);
    lane_t *lane = &all->lanes[*cls];
    HK_OPAQUE(lane); /* one address for all that follows */
    return hk_likely(lane->ready > 0) ? lane : NULL;
}

/* For statistics; a block of another heap serves here from now on. */
HK_INLINE void hardened_count_freed(heap_t *h, uint32_t owner, size_t cls) {
    hk_add_in_place(h->front.magazines[cls].pushes, 1);
    if (hk_likely(owner == h->front.id))
        return;
    hk_add_in_place(h->class_stats[cls].freed_remote, 1);
    hk_add_in_place(h->class_stats[cls].kept, 1);
}

/* Nothing was written behind what was asked for, nor before the block; of a tiny one as far as is known without a
 * call. */
HK_INLINE bool hardened_is_whole_soon(const void *block, size_t cls, size_t block_size, bool exact, bool tiny) {
    size_t asked = seal_asked(block, block_size), room = block_size - SEAL_BYTES, slack = room - asked;
    if (asked > room || !seal_below_is_whole(block, class_slab_offset(&hk_classes[cls], block), block_size))
        return false;
    if (!exact || tiny)
        return !exact || (seal_slack_is_short(slack, asked) && seal_short_is_whole(block, block_size, slack));
    return seal_find_in_slack(block, block_size, asked) == block_size;
}

/* Frees a block of a slab, whose entry in the slot table is `entry`; false when it is something else. `exact` says that
 * the level is 3. `tiny` says that only tiny blocks are freed here: then all but the common case is a tail call. */
HK_INLINE bool hardened_free_soon(void *block, uint32_t entry, heap_front_t *front, granule_t granule, bool exact,
                                  bool tiny, const void *caller) {
    const size_t cls = entry & HK_MAP_CLASS_MAX, limit = tiny ? HK_TINY_CLASSES : HK_CLASS_COUNT;
    const bool in_slab = entry - map_tag(HK_OWNER_SHARED) < map_tag(HK_OWNER_EXPLICIT - HK_OWNER_SHARED);
    if (hk_unlikely(!in_slab || cls >= limit || !hardened_clear_live(granule)))
        return false;
    size_t block_size = tiny ? class_tiny_size(cls) : hk_class_info[cls].block_size;
    if (hk_unlikely(tags_are_on() || !hardened_is_whole_soon(block, cls, block_size, exact, tiny))) {
        hardened_free_dead(block, entry, caller);
        return true;
    }
    if (tiny)
        seal_clear_tiny(block, block_size);
    else
        seal_clear(block, block_size);
    heap_t *h = heap_of_front(front);
    lanes_t *all = front->lanes;
    if (hk_unlikely(all == NULL || !(exact ? quarantine_has_turn(h, all, cls) : lane_has_turn(all, cls)))) {
        hardened_put_cleared(block, entry, caller);
        return true;
    }
    hardened_count_freed(h, entry >> 8, cls);
    if (exact)
        quarantine_turn(h, all, map_granule(block), cls);
    else
        lane_turn(all, cls, map_granule(block), block_size); /* not `granule`: it would have to be saved */
    return true;
}
