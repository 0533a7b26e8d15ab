/* SPDX-License-Identifier: MIT */
#include "slow/free_sized.h"

#include "base/bits.h"
#include "slow/blocks.h"
#include "slow/classify.h"
#include "slow/free.h"
#include "slow/hardened.h"
#include "slow/realloc.h"
#include "slow/tagged.h"
#include "watch/misuse.h"

/* Whether a block of `cls` may have been asked for with a size of class `of`: it may have been borrowed, or been larger
 * before. Of a run no other class will do. */
HK_INLINE bool class_fits(unsigned cls, unsigned of) {
    return cls == of || (cls < HK_CLASS_COUNT && heap_block_stays(cls, hk_class_info[of].block_size));
}

static bool size_fits(const void *block, const found_t *found, size_t align, size_t size) {
    size_t asked = size + (size == 0);
    if (found->kind == KIND_NOTHING)
        return size == 0;
    if (found_is_hardened(found))
        return hardened_size_fits(block, found->size, align, size);
    if (heap_has_kept_whole())
        return asked <= found->size;
    if (found->kind == KIND_GUARDED)
        return size == found->size;
    if (asked > found->size || (found->kind != KIND_SLAB && found->kind != KIND_LARGE))
        return asked <= found->size;
    if (found->cls == HK_CLASS_COUNT)
        return align > HK_ALIGNMENT || asked > HK_MID_MAX / 2;
    /* One alone has an alignment by its place, and may have grown there to a class that is no multiple of it. */
    if (found->kind == KIND_LARGE && class_fits(found->cls, class_of(asked)))
        return true;
    return class_fits(found->cls, align <= HK_ALIGNMENT ? class_of(asked) : class_of_aligned(asked, align));
}

/* What may be no block, or of another size. Where the program goes on after a report that the size is wrong, the block
 * is freed too: the size is not needed. */
static HK_COLD void free_rare(void *pointer, size_t align, size_t size, const char *verb, const void *caller) {
    void *block = tagged_enter(verb, pointer, caller);
    if (block == NULL)
        return;
    found_t found = classify(verb, block, caller);
    if (found.kind == KIND_NONE)
        return;
    if (found.kind != KIND_FOREIGN && hk_misuse_is_watched() && !size_fits(block, &found, align, size))
        misuse_wrong_size(verb, block, found_usable(block, &found), size, caller);
    heap_free_found(block, caller);
}

/* size_fits of a live block, where that is quick to see; false may mean that it is not. */
HK_INLINE bool fits_plainly(const void *block, uint32_t cls, size_t align, size_t size) {
    size_t rounded = hk_align_up(size, align);
    if (hk_likely(hk_front->tag != HK_MAP_NO_TAG))
        return rounded - 1 < HK_MAGAZINE_SIZE_MAX && class_fits(cls, class_of(rounded));
    return hardened_is_on() && cls < HK_CLASS_COUNT &&
           hardened_size_fits(block, hk_class_info[cls].block_size, align, size);
}

/* What is live and as long as it should be goes the way of plain frees, whose checks are the same from there on. */
void heap_free_sized(void *pointer, size_t align, size_t size, const char *verb) {
    granule_t granule = map_granule(pointer);
    uint32_t entry = map_granule_lookup(granule), cls = entry & HK_MAP_CLASS_MAX;
    bool has_class = cls < HK_CLASS_COUNT || (cls < HK_MAGAZINE_COUNT && !map_is_explicit(entry));
    bool is_live = entry != 0 && has_class && map_is_live(granule);
    if (hk_likely(is_live && fits_plainly(pointer, cls, align, size)))
        heap_free_live(pointer, entry ^ hk_front->tag, hk_front, granule);
    else
        free_rare(pointer, align, size, verb, __builtin_return_address(0));
}
