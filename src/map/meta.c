/* SPDX-License-Identifier: MIT */
#include "map/meta.h"

#include "base/bits.h"
#include "core/panic.h"
#include "region/region.h"

#include <errno.h>

enum { META_SHIFT_MIN = 6, META_SHIFT_MAX = 24 };

typedef struct meta_piece {
    struct meta_piece *next;
} meta_piece_t;

hk_lock_t hk_meta_lock = HK_LOCK_INIT(HK_RANK_META);

/* Guarded by hk_meta_lock. */
static meta_piece_t *free_pieces[META_SHIFT_MAX + 1];
static size_t bump;
static bool bump_is_huge; /* where it goes on, pages are huge */

static unsigned shift_for(size_t size) {
    unsigned shift = hk_log2_ceil(size);
    return shift < META_SHIFT_MIN ? META_SHIFT_MIN : shift;
}

size_t meta_good_size(size_t size) { return (size_t)1 << shift_for(size); }

/* Once huge pages are earned, goes on at the border of the first. What is left out was never touched. */
static void enter_huge_locked(void) {
    hk_assert(hk_lock_is_held(&hk_meta_lock));
    if (hk_likely(bump_is_huge) || !region_has_huge_records())
        return;
    uintptr_t area = hk_window.areas[REGION_AREA_META];
    bump = hk_align_up(area + bump, HK_SUPERSLAB_SIZE) - area;
    bump_is_huge = true;
}

/* Goes on further on, each time twice as far, where somebody else has mapped. */
static void *bump_alloc_locked(unsigned shift) {
    hk_assert(hk_lock_is_held(&hk_meta_lock));
    const size_t size = (size_t)1 << shift;
    enter_huge_locked();
    int error = EEXIST;
    for (size_t skip = 0; error == EEXIST; skip = hk_max(2 * skip, HK_SUPERSLAB_SIZE)) {
        size_t at = hk_align_up(bump + skip, hk_min(size, 4096));
        error = region_area_cover_part(REGION_AREA_META, at, at + size);
        if (error == 0)
            bump = at + size;
    }
    return error == 0 ? (void *)(hk_window.areas[REGION_AREA_META] + bump - size) : NULL;
}

void *meta_alloc(size_t size) {
    unsigned shift = shift_for(size);
    if (shift > META_SHIFT_MAX)
        return NULL;
    hk_lock(&hk_meta_lock);
    meta_piece_t *piece = free_pieces[shift];
    if (piece != NULL)
        free_pieces[shift] = piece->next;
    else
        piece = bump_alloc_locked(shift);
    hk_unlock(&hk_meta_lock);
    return piece;
}

void meta_free(void *memory, size_t size) {
    hk_assert(meta_good_size(size) <= (size_t)1 << META_SHIFT_MAX);
    hk_assert((uintptr_t)memory % hk_min(meta_good_size(size), 4096) == 0);
    if (memory == NULL)
        return;
    hk_assert((uintptr_t)memory - hk_window.areas[REGION_AREA_META] < hk_window.area_sizes[REGION_AREA_META]);
    unsigned shift = shift_for(size);
    meta_piece_t *piece = memory;
    hk_lock(&hk_meta_lock);
    piece->next = free_pieces[shift];
    free_pieces[shift] = piece;
    hk_unlock(&hk_meta_lock);
}
