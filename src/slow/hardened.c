/* SPDX-License-Identifier: MIT */
#include "slow/hardened.h"

#include "core/panic.h"
#include "heap/flush.h"
#include "heap/nothing.h"
#include "heap/wake.h"
#include "heap/wipe.h"
#include "large/fence.h"
#include "large/huge.h"
#include "limit/limit.h"
#include "map/pointer.h"
#include "slow/blocks.h"
#include "slow/sampled.h"
#include "slow/tick.h"
#include "start/fork.h"
#include "start/start.h"
#include "watch/misuse.h"

#include <errno.h>
#include <string.h>

/* Of blocks from here on that were never handed out, only pages that somebody touched are looked at: others cost. */
enum { LOOK_PAST_MIN = 4096 };

static bool is_run(const void *block) { return map_is_run(map_lookup(block)); }

/* Each block of a slab has a seal, and at level 3 huge ones have. */
static bool is_sealed(const void *block) {
    uint32_t entry = map_lookup(block);
    return entry == 0 ? hk_hardened_level >= 3 : !map_is_run(entry);
}

/* What was asked for, of a block whose size is known exactly; a number above its size when its seal is broken, or when
 * another thread freed it: those who visit a heap ask too. */
static size_t asked_exactly(const void *block, size_t block_size) {
    uint32_t entry = map_lookup(block);
    if (entry != 0 && map_is_run(entry))
        return large_open_size(block) - large_slack(block);
    if (entry != 0) {
        const uint64_t *seal = seal_place(block, block_size);
        return seal_size(seal, seal_read(seal));
    }
    const uint64_t *place = seal_place(block, block_size);
    uint64_t word;
    return huge_read(place, &word) ? seal_size(place, word) : SIZE_MAX;
}

size_t hardened_size(const void *block, size_t block_size) {
    if (hk_hardened_level < 3 && !is_run(block))
        return is_sealed(block) ? block_size - SEAL_BYTES : block_size;
    size_t asked = asked_exactly(block, block_size);
    return asked > block_size ? 0 : asked;
}

/* A block whose seal is broken may hold something in all of it: what moves it loses nothing. */
size_t hardened_held(const void *block, size_t block_size) {
    size_t size = hardened_size(block, block_size);
    bool is_broken = size == 0 && is_sealed(block) && asked_exactly(block, block_size) > block_size;
    return is_broken ? block_size - SEAL_BYTES : size;
}

/* With room for the seal. */
static size_t sealed_size(size_t size) { return size < SIZE_MAX - SEAL_BYTES ? size + SEAL_BYTES : size; }

/* Class of a block that serves the request. */
static unsigned class_for(size_t align, size_t size) {
    size_t sealed = sealed_size(size);
    return hk_likely(align <= HK_ALIGNMENT && sealed <= HK_MID_MAX) ? class_of(sealed)
                                                                    : class_of_aligned(sealed, align);
}

/* What a large block takes, with a page behind it to be fenced; and a huge one: at level 3 something is behind it. */
static size_t big_room(size_t size) {
    size_t page = sys_page_size();
    if (size <= HK_LARGE_MAX - page)
        return hk_align_up(size, page) + page;
    return hk_hardened_level >= 3 ? sealed_size(size) : size;
}

size_t hardened_good_size(size_t size) {
    if (hk_hardened_level >= 3 || size == 0)
        return size;
    unsigned cls = class_for(1, size);
    return cls < HK_CLASS_COUNT ? hk_class_info[cls].block_size - SEAL_BYTES : hk_align_up(size, sys_page_size());
}

bool hardened_size_fits(const void *block, size_t block_size, size_t align, size_t size) {
    if (hk_hardened_level < 3 && !is_sealed(block))
        return (align > HK_ALIGNMENT || size > HK_MID_MAX / 2 || heap_has_kept_whole()) &&
               size <= hardened_size(block, block_size);
    size_t asked = asked_exactly(block, block_size);
    if (asked > block_size) /* free reports that */
        return true;
    return hk_hardened_level >= 3 ? asked == size : asked <= size && size <= block_size - SEAL_BYTES;
}

/* Of a block that is with the program. */
static void seal(void *block, size_t block_size, size_t size) {
    const uint64_t tags = tags_pause();
    seal_set(block, block_size, size);
    if (hk_hardened_level >= 3)
        seal_fill_slack(block, block_size, size);
    tags_resume(tags);
}

/* The byte at `at`, or where `asked` is above `room`, the seal behind that, was overwritten. */
static HK_COLD void report_overflow(const void *block, size_t block_size, size_t room, size_t asked, size_t at,
                                    const void *caller) {
    bool is_known = asked <= room;
    const hk_misuse_t misuse = {
        .what = "overflow of",
        .address = block,
        .caller = caller,
        .block = block,
        .block_size = block_size,
        .asked = is_known ? asked : 0,
        .wrong = (const char *)block + (is_known ? at : room),
        .state = HK_MISUSE_ALLOCATED,
    };
    if (is_known)
        hk_misuse(&misuse, "%zu-byte block, %zu bytes asked for, offset %zu overwritten", block_size, asked, at);
    else
        hk_misuse(&misuse, "%zu-byte block, its last bytes are overwritten", block_size);
}

/* The seal is mended, so that the block above does not report it again. */
static HK_COLD void report_broken(const void *block, size_t block_size, size_t asked, size_t at, const void *caller) {
    report_overflow(block, block_size, block_size - SEAL_BYTES, asked, at, caller);
    seal_set(block, block_size, block_size - SEAL_BYTES);
}

static bool run_is_whole(const void *block, const void *caller) {
    size_t open = large_open_size(block), slack = large_slack(block);
    size_t at = hk_hardened_level >= 3 && slack > 0 ? wipe_find_in_slack(block, open, slack) : open;
    if (hk_likely(at == open))
        return true;
    report_overflow(block, open, open, open - slack, at, caller);
    memset((char *)(uintptr_t)block + open - slack, 0, slack); /* mended, so that its free does not report it again */
    wipe_fill_slack((char *)(uintptr_t)block, open, slack);
    return false;
}

/* True when nothing behind the asked size was written; reports otherwise. */
static bool seal_is_whole(const void *block, size_t block_size, const void *caller) {
    size_t asked = seal_asked(block, block_size), at = 0;
    if (asked <= block_size - SEAL_BYTES)
        at = hk_hardened_level >= 3 ? seal_find_in_slack(block, block_size, asked) : block_size;
    if (hk_likely(at == block_size))
        return true;
    report_broken(block, block_size, asked, at, caller);
    return false;
}

/* As seal_is_whole, of a block of a slab; and looks at what lies before it. */
static bool slab_seal_is_whole(void *block, unsigned cls, const void *caller) {
    size_t block_size = hk_class_info[cls].block_size;
    if (hk_unlikely(!seal_below_is_whole(block, class_slab_offset(&hk_classes[cls], block), block_size)))
        seal_report_below(block, block_size, caller);
    return seal_is_whole(block, block_size, caller);
}

void hardened_tag(void *block, unsigned cls) {
    hk_assert(cls < HK_CLASS_COUNT);
    const size_class_info_t *info = &hk_class_info[cls];
    const char *start = block, *above = start + info->block_size;
    unsigned index = class_block_index(&hk_classes[cls], block);
    hk_assert(class_is_block(&hk_classes[cls], block));
    hk_assert(tags_load(block) == block && tags_load(above - TAG_GRANULE) == above - TAG_GRANULE); /* TAG-1 */
    tags_draw(block, info->block_size, index > 0 ? start - TAG_GRANULE : NULL,
              index + 1 < info->block_count ? above : NULL);
}

/* Of a block of a slab that is zeros. */
static void seal_zeros(void *block, unsigned cls, size_t size) {
    size_t block_size = hk_class_info[cls].block_size, slack = block_size - SEAL_BYTES - size;
    if (hk_hardened_level >= 3 && seal_slack_is_short(slack, size))
        seal_fill_short(block, block_size, slack);
    else if (hk_hardened_level >= 3)
        seal_fill_slack(block, block_size, size);
    seal_set(block, block_size, size);
    if (tags_are_on())
        hardened_tag(block, cls);
}

/* A free block of a slab is handed out. */
HK_INLINE void look_and_seal(void *block, unsigned cls, block_past_t past, size_t size, const void *caller,
                             bool is_zero(const void *, size_t)) {
    size_t block_size = hk_class_info[cls].block_size;
    bool never_used = past == BLOCK_ZEROED && block_size >= LOOK_PAST_MIN;
    if (hk_unlikely(!(never_used ? wipe_is_untouched(block, block_size) : is_zero(block, block_size))))
        seal_report_written(block, block_size, caller);
    seal_zeros(block, cls, size);
}

/* --- Explicit heaps ----------------------------------------------------------------------------------------------- */

/* What has no room for its seal in a slab has none without it. */
size_t hardened_room(size_t size) {
    size_t sealed = sealed_size(size);
    return sealed <= HK_MID_MAX ? sealed : hk_max(big_room(size), HK_MID_MAX + 1);
}

void hardened_begin_block(void *block, unsigned cls, bool never_used, size_t size, const void *caller) {
    look_and_seal(block, cls, never_used ? BLOCK_ZEROED : BLOCK_USED, size, caller, seal_long_is_zero);
}

/* At level 2 all of the block's last page may be used. */
static void begin_run(void *run, size_t size) {
    large_fence(run, size);
    size_t open = large_open_size(run);
    size_t end = hk_hardened_level >= 3 ? size : hk_min(open, hk_align_up(hk_max(size, 1), sys_page_size()));
    large_set_slack(run, open - end);
    if (hk_hardened_level >= 3)
        wipe_fill_slack(run, open, open - end);
}

static void begin(void *block, size_t block_size, size_t size) {
    if (is_sealed(block))
        seal(block, block_size, size);
    else if (is_run(block))
        begin_run(block, size);
}

bool hardened_is_whole(const void *block, size_t block_size, const void *caller) {
    const uint64_t tags = tags_pause();
    bool is =
        is_run(block) ? run_is_whole(block, caller) : !is_sealed(block) || seal_is_whole(block, block_size, caller);
    tags_resume(tags);
    return is;
}

bool hardened_end(void *block, unsigned cls, const void *caller) {
    if (tags_are_on())
        tags_clear(block, hk_class_info[cls].block_size);
    if (hk_unlikely(!slab_seal_is_whole(block, cls, caller)))
        return false;
    seal_clear(block, hk_class_info[cls].block_size);
    return true;
}

/* --- Large and huge blocks ---------------------------------------------------------------------------------------- */

/* Whether the run's pages are open as far as `size` bytes need; it may have a fence from before. */
static bool opens_to(void *run, size_t size) { return large_open_size(run) >= size || large_unfence(run); }

/* A free run reads as zeros (SEAL-1), but for what was written to it meanwhile; a huge block is mapped anew. */
bool hardened_begin_big(void *block, size_t size, const void *caller) {
    if (is_run(block)) {
        if (!opens_to(block, size))
            return false;
        wipe_report_if_written(block, large_open_size(block), caller);
    }
    begin(block, heap_block_size(block), size);
    return true;
}

static void *big_alloc(heap_t *h, size_t align, size_t size, const void *caller) {
    void *waited = quarantine_take_run(h, big_room(size), align);
    void *block = waited != NULL ? waited : heap_big_alloc(h, big_room(size), align, NULL);
    if (block != NULL && hardened_begin_big(block, size, caller))
        return block;
    if (block != NULL)
        (void)large_free(&h->large, block, true);
    errno = ENOMEM;
    return NULL;
}

void hardened_keep_free(heap_t *h, const void *block, bool was_sampled, const void *caller) {
    if (was_sampled && hk_hardened_level >= 3)
        sample_keep_free(block, heap_draw(h), caller);
}

void hardened_free_large(heap_t *h, void *block, const void *caller) {
    size_t size = large_open_size(block);
    if (large_is_live(block) && !hardened_is_whole(block, size, caller))
        return;
    if (!large_hold(&(h != NULL ? h : heap_shared())->large, block)) {
        misuse_double_free("free", block, size, caller);
        return;
    }
    quarantine_put_run(h, block, caller);
}

/* False when the huge block was written past what was asked for, which is reported. True when there is none. */
static bool huge_is_whole(const void *block, const void *caller) {
    size_t size = hk_hardened_level >= 3 ? heap_block_size(block) : 0;
    return size == 0 || hardened_is_whole(block, size, caller);
}

bool hardened_free_huge(heap_t *h, void *block, const void *caller) {
    if (!huge_is_whole(block, caller))
        return true;
    const bool was_sampled = sample_close(block, heap_draw(h));
    if (!huge_free(block))
        return false;
    hardened_keep_free(h, block, was_sampled, caller);
    return true;
}

/* Behind the slack's first page all is zeros. */
static void cut(void *run, size_t asked, size_t size) {
    if (size < asked)
        memset((char *)run + size, 0, asked - size);
}

/* A large block grows where it is, or its pages move and its old place reads as zeros; what it has is enough for less
 * growth than that, and a little less than it had. A block that gives slots back moves: those would not be zeros. */
static void *resize_large(heap_t *h, void *block, size_t size, const void *caller) {
    size_t have = large_size(block), room = big_room(size);
    hk_assert(have > 0 && have % HK_SLOT_SIZE == 0);
    bool grows = room > have;
    if (sealed_size(size) <= HK_MID_MAX || (grows ? !limit_allows(room - have) : have - room > have / STAY_SHARE) ||
        !hardened_is_whole(block, have, caller))
        return NULL;
    size_t asked = hardened_size(block, have);
    if (hk_hardened_level >= 3) { /* what was behind it is the program's now, or the other way round */
        wipe_clear_slack(block, large_open_size(block), large_slack(block));
        cut(block, asked, size);
    }
    if (grows)
        heap_untag(h, block, map_lookup(block));
    void *same = grows ? large_resize(h != NULL ? &h->large : &heap_shared()->large, block, room, false)
                 : opens_to(block, size) ? block
                                         : NULL;
    if (same != NULL)
        begin(same, large_size(same), size);
    else
        begin(block, have, asked);
    return same;
}

/* What does not fit any more is unmapped, and so is the old place. */
static void *resize_huge(void *block, size_t size, const void *caller) {
    size_t have = heap_block_size(block), room = big_room(size);
    if (room <= HK_LARGE_MAX || (room > have && !limit_allows(room - have)) || !huge_is_whole(block, caller))
        return NULL;
    void *moved = huge_resize(block, room);
    if (moved != NULL)
        begin(moved, heap_block_size(moved), size);
    return moved;
}

/* --- Alloc, free, realloc ----------------------------------------------------------------------------------------- */

void *hardened_hand_out(void *block, unsigned cls, size_t size) {
    seal_zeros(block, cls, size);
    hardened_set_live(map_granule(block), cls);
    return block;
}

void *hardened_hand_out_written(void *block, unsigned cls, size_t size, const void *caller) {
    seal_report_written(block, hk_class_info[cls].block_size, caller);
    return hardened_hand_out(block, cls, size);
}

static void *alloc(heap_t *h, size_t align, size_t size, bool is_zero(const void *, size_t), const void *caller) {
    if (h == NULL)
        h = heap_shared();
    void *nothing = hk_unlikely(size == 0) && align <= NOTHING_ALIGN_MAX ? nothing_alloc(align) : NULL;
    if (nothing != NULL)
        return nothing;
    unsigned cls = class_for(align, size);
    lane_t *lane = cls < HK_CLASS_COUNT && h != heap_shared() ? lane_with_blocks(h, cls) : NULL;
    if (hk_likely(lane != NULL))
        return hardened_take(lane, cls, size, hk_hardened_level >= 3, false, caller, is_zero);
    if (cls >= HK_CLASS_COUNT)
        return big_alloc(h, align, size, caller);
    block_past_t past;
    void *block = heap_take_one_or_reclaim(h, cls, &past);
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    look_and_seal(block, cls, past, size, caller, is_zero);
    return block;
}

void *hardened_alloc(heap_t *h, size_t align, size_t size, const void *caller) {
    return alloc(h, align, size, seal_spots_are_zero, caller);
}

void *hardened_calloc(heap_t *h, size_t align, size_t size, const void *caller) {
    return alloc(h, align, size, seal_long_is_zero, caller);
}

static void put(heap_t *h, void *block, unsigned cls, const void *caller) {
    if (h == NULL) {
        magazine_give_one(heap_shared(), cls, block);
        return;
    }
    hardened_count_freed(h, map_entry(map_slot(block)) >> 8, cls);
    if (hk_hardened_level >= 3)
        quarantine_put(h, block, cls, caller);
    else
        lane_give(h, cls, map_granule(block), caller);
}

/* A live block of a slab of any thread's. */
bool hardened_free_live(void *block, const void *caller) {
    granule_t granule = map_granule(block);
    uint32_t entry = map_granule_lookup(granule), cls = entry & HK_MAP_CLASS_MAX;
    if (hk_unlikely(cls >= HK_CLASS_COUNT || entry == 0 || map_is_explicit(entry) || !hardened_clear_live(granule)))
        return false;
    hardened_free_dead(block, entry, caller);
    return true;
}

void hardened_put_cleared(void *block, uint32_t entry, const void *caller) {
    if (fork_attend())
        put(heap_current(), block, entry & HK_MAP_CLASS_MAX, caller);
}

void hardened_free_dead(void *block, uint32_t entry, const void *caller) {
    if (hardened_end(block, entry & HK_MAP_CLASS_MAX, caller))
        hardened_put_cleared(block, entry, caller);
}

static void free_moved(heap_t *h, void *block, size_t old_size, const void *caller) {
    uint32_t entry = map_lookup(block);
    if (entry == 0) {
        (void)hardened_free_huge(h, block, caller);
        return;
    }
    const bool was_sampled = sample_close(block, heap_draw(h));
    hardened_keep_free(h, block, was_sampled, caller);
    if (map_is_run(entry))
        hardened_free_large(h, block, caller);
    else if (was_sampled || map_clear_live_shared(map_granule(block)))
        hardened_free_dead(block, entry, caller);
    else /* another thread frees it at this moment */
        misuse_double_free("realloc", block, old_size, caller);
    heap_memory_freed(h);
}

/* It keeps its seal where its size is now. */
void *hardened_stay(void *block, size_t size, int saved_errno, const void *caller) {
    const size_t block_size = heap_block_size(block);
    if (!hardened_is_whole(block, block_size, caller))
        return NULL;
    if (hk_hardened_level >= 3 && is_run(block)) {
        size_t asked = asked_exactly(block, block_size);
        wipe_clear_slack(block, block_size, large_slack(block));
        cut(block, asked, size);
    }
    begin(block, block_size, size);
    return heap_keep_whole(block, saved_errno);
}

/* With what is fenced. */
static size_t whole_size(const void *block, size_t block_size) {
    return is_run(block) ? large_size(block) : block_size;
}

/* Within its class, and what it was asked for is that from then on. */
bool hardened_expand(void *block, size_t block_size, size_t size, const void *caller) {
    uint32_t entry = map_lookup(block);
    bool in_slab = entry != 0 && !map_is_run(entry);
    size_t room = in_slab ? sealed_size(size) : big_room(size);
    bool fits = in_slab                 ? class_of_aligned(room, HK_ALIGNMENT) == (entry & HK_MAP_CLASS_MAX)
                : hk_hardened_level < 3 ? sealed_size(size) > HK_MID_MAX && room <= whole_size(block, block_size)
                                        : asked_exactly(block, block_size) == size;
    if (!fits || !hardened_is_whole(block, block_size, caller) || (is_run(block) && !opens_to(block, size)))
        return false;
    begin(block, block_size, size);
    return true;
}

/* NULL when it has to move into another block. */
static void *resize(heap_t *h, void *block, size_t old_size, size_t size, const void *caller) {
    uint32_t entry = map_lookup(block);
    bool in_slab = entry != 0 && !map_is_run(entry);
    size_t block_size = in_slab ? hk_class_info[entry & HK_MAP_CLASS_MAX].block_size : 0;
    void *same = entry == 0 ? resize_huge(block, size, caller)
                 : !in_slab ? resize_large(h, block, size, caller)
                            : (hardened_expand(block, block_size, size, caller) ? block : NULL);
    if (same != NULL && in_slab)
        (void)sample_resize(block, size, block_size, false);
    else if (same != NULL)
        heap_sample_resized(h, block, same, old_size, size, caller);
    return same;
}

void *hardened_realloc(void *block, size_t old_size, size_t size, const void *caller) {
    heap_t *h = heap_current();
    void *same = resize(h, block, old_size, size, caller);
    if (same != NULL)
        return same;
    int saved = errno;
    const bool due = heap_charge(h, hk_max(size, 1), false);
    void *copy = heap_sampled_if(due, h, hardened_alloc(h, HK_ALIGNMENT, size, caller), size, caller);
    if (copy == NULL && size <= old_size)
        return hardened_stay(block, size, saved, caller);
    if (copy == NULL)
        return NULL;
    hk_libc_memcpy(pointer_to(copy), pointer_to(block), hk_min(old_size, size));
    free_moved(h, block, old_size, caller);
    return copy;
}
