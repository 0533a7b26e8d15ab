/* SPDX-License-Identifier: MIT */
#include "map/meta.h"

#include "base/bits.h"
#include "region/region.h"

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
    if (hk_likely(bump_is_huge) || !region_has_huge_records())
        return;
    uintptr_t area = hk_window.areas[REGION_AREA_META];
    bump = hk_align_up(area + bump, HK_SUPERSLAB_SIZE) - area;
    bump_is_huge = true;
}

static void *bump_alloc_locked(unsigned shift) {
    enter_huge_locked();
    size_t at = hk_align_up(bump, hk_min((size_t)1 << shift, 4096));
    if (region_area_cover(REGION_AREA_META, at + ((size_t)1 << shift)) != 0)
        return NULL;
    bump = at + ((size_t)1 << shift);
    return (void *)(hk_window.areas[REGION_AREA_META] + at);
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
    if (memory == NULL)
        return;
    unsigned shift = shift_for(size);
    meta_piece_t *piece = memory;
    hk_lock(&hk_meta_lock);
    piece->next = free_pieces[shift];
    free_pieces[shift] = piece;
    hk_unlock(&hk_meta_lock);
}
