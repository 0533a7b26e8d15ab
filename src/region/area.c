/* SPDX-License-Identifier: MIT */
#include "region/area.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/panic.h"
#include "region/scarce.h"
#include "sys/sys.h"

#include <stdatomic.h>

enum { PIECES_MAX = 32, STEP_SHARE = 4, STEP_SHARE_TIGHT = 16 };
#define AREA_STEP (64 * HK_KIB)
#define GAP_MAX   HK_SUPERSLAB_SIZE /* what is left out and so short is mapped as well */

/* Offsets in the area. In use when `to` is not 0, beyond the first ones in the order of their making. */
typedef struct piece {
    _Atomic size_t from, to;
} piece_t;

static piece_t pieces[REGION_AREA_COUNT][PIECES_MAX];
static size_t readable[REGION_AREA_COUNT]; /* everything below can be read */
static _Atomic bool huge_records;          /* written by who grows the heap, read by who grows an area */

static size_t from_of(const piece_t *piece) { return atomic_load_explicit(&piece->from, memory_order_relaxed); }
/* Acquire: pairs with the release in set_to. Who finds an end finds its beginning, when it is loaded afterwards. */
static size_t to_of(const piece_t *piece) { return atomic_load_explicit(&piece->to, memory_order_acquire); }
static void set_to(piece_t *piece, size_t to) { atomic_store_explicit(&piece->to, to, memory_order_release); }

static bool has_no_holes(region_area_t area) {
    return area == REGION_AREA_STATE || area == REGION_AREA_TABLE || area == REGION_AREA_SUPERSLABS;
}

static size_t grain(void) { return region_is_tight() ? sys_page_size() : AREA_STEP; }

void region_earn_huge_records(bool earned) {
    if (earned != atomic_load_explicit(&huge_records, memory_order_relaxed))
        atomic_store_explicit(&huge_records, earned, memory_order_relaxed);
}

bool region_has_huge_records(void) { return atomic_load_explicit(&huge_records, memory_order_relaxed); }

/* Arrays that are indexed by addresses are tables, what describes one thing are records. */
static const char *name_of(region_area_t area) {
    bool is_table = area == REGION_AREA_STATE || area == REGION_AREA_TABLE || area == REGION_AREA_LIVE;
    return is_table ? "hakmem-tables" : "hakmem-records";
}

static int map_at(region_area_t area, size_t at, size_t size) {
    void *address = (void *)(hk_window.areas[area] + at);
    hk_count(map_calls);
    int error = at < readable[area] ? sys_map_over(address, size) : sys_map_at(address, size);
    if (error == 0)
        sys_name(address, size, name_of(area));
    return error;
}

/* Maps what comes behind a piece: `wanted` bytes, but no more than up to `end`, and some more of it or the whole of a
 * huge page. */
static int piece_extend(region_area_t area, piece_t *piece, size_t wanted, size_t end) {
    hk_assert(wanted > 0);
    size_t at = to_of(piece), border = hk_align_up(hk_window.areas[area] + at + 1, HK_SUPERSLAB_SIZE);
    if (at < readable[area]) /* what was filled is replaced, and nothing behind it */
        end = hk_min(end, readable[area]);
    size_t most = hk_min(border - hk_window.areas[area], end) - at;
    bool huge =
        most == HK_SUPERSLAB_SIZE && !region_is_tight() && window_may_be_huge(area) && region_has_huge_records();
    /* Steps grow with the area, so that their number is logarithmic. */
    size_t share = region_is_tight() ? STEP_SHARE_TIGHT : STEP_SHARE;
    size_t step = huge ? most : hk_min((at - from_of(piece)) / share, HK_SUPERSLAB_SIZE);
    size_t least = hk_min(hk_align_up(wanted, sys_page_size()), most);
    size_t size = hk_min(hk_align_up(hk_max(wanted, step), grain()), most);
    int error = map_at(area, at, size);
    if (error != 0 && size > least)
        error = map_at(area, at, size = least);
    if (error == ENOMEM)
        scarce_note();
    if (error != 0)
        return error;
    if (huge && size == most && sys_advise_huge((void *)(hk_window.areas[area] + at), size) == 0)
        hk_count_by(huge_page_bytes, size);
    set_to(piece, at + size);
    if (at + size > readable[area] && has_no_holes(area))
        readable[area] = at + size;
    return 0;
}

/* What lies around an offset. */
typedef struct place {
    piece_t *piece;  /* that which has it */
    piece_t *before; /* that which ends nearest before it */
    piece_t *unused;
    size_t end; /* where the next piece begins, or what may be mapped ends */
} place_t;

static place_t place_of(region_area_t area, size_t at) {
    place_t place = {.end = at < readable[area] ? readable[area] : hk_window.area_sizes[area]};
    for (piece_t *p = pieces[area]; p < pieces[area] + PIECES_MAX; p++) {
        size_t to = to_of(p), from = from_of(p);
        if (to == 0) {
            place.unused = p;
            break;
        }
        if (at >= from && at < to)
            place.piece = p;
        else if (to <= at && (place.before == NULL || to > to_of(place.before)))
            place.before = p;
        else if (from > at)
            place.end = hk_min(place.end, from);
    }
    return place;
}

/* What comes between the last piece and `at`. */
static int fill_hole(region_area_t area, size_t at) {
    if (!has_no_holes(area) || at <= readable[area])
        return 0;
    hk_count(map_calls);
    int error = sys_map_zeros_at((void *)(hk_window.areas[area] + readable[area]), at - readable[area]);
    if (error == 0)
        readable[area] = at;
    return error;
}

/* A new piece, that begins at the step before `at`. */
static int piece_begin(region_area_t area, size_t at, size_t to, size_t step, const place_t *place) {
    size_t before = place->before != NULL ? to_of(place->before) : 0, from = hk_max(hk_align_down(at, step), before);
    int error = fill_hole(area, from);
    if (error != 0)
        return error;
    piece_t made = {from, from}; /* others see it when there is something in it */
    error = piece_extend(area, &made, hk_min(to, place->end) - from, place->end);
    if (error != 0)
        return error;
    atomic_store_explicit(&place->unused->from, from, memory_order_relaxed);
    set_to(place->unused, to_of(&made));
    return 0;
}

/* Goes on with the piece before, unless it is far away or somebody else has mapped between: then with a new one. */
static int cover_next(region_area_t area, size_t *at, size_t to) {
    place_t place = place_of(area, *at);
    if (place.piece != NULL) {
        *at = to_of(place.piece);
        return 0;
    }
    size_t near = region_is_tight() ? 0 : GAP_MAX, before = place.before != NULL ? to_of(place.before) : 0;
    int error = EEXIST;
    if (place.before != NULL && (*at - before <= near || place.unused == NULL)) {
        error = piece_extend(area, place.before, hk_min(to, place.end) - before, place.end);
        if (error == 0 && to_of(place.before) > *at)
            *at = to_of(place.before);
        if (*at == before)
            return error;
    }
    if (error == EEXIST && place.unused != NULL)
        error = piece_begin(area, *at, to, grain(), &place);
    if (error == EEXIST && place.unused != NULL)
        error = piece_begin(area, *at, to, sys_page_size(), &place);
    return error;
}

int region_area_cover_part(region_area_t area, size_t from, size_t to) {
    hk_assert(from <= to && area < REGION_AREA_COUNT);
    if (hk_likely(from >= from_of(&pieces[area][0]) && to <= to_of(&pieces[area][0])))
        return 0;
    if (to > hk_window.area_sizes[area])
        return ENOMEM;
    for (size_t at = from; at < to;) {
        int error = cover_next(area, &at, to);
        if (error == ENOMEM)
            return ENOMEM;
        if (error != 0)
            return EEXIST;
    }
    return 0;
}

int area_cover_superslabs(region_area_t area, size_t first, size_t count) {
    hk_assert(count > 0);
    size_t share = window_area_share(area);
    return region_area_cover_part(area, first * share, (first + count) * share);
}

/* What may have no holes is one range, with what was filled behind the last piece. */
void area_end(region_area_t area) {
    if (readable[area] > 0)
        sys_unmap((void *)hk_window.areas[area], readable[area]);
    for (piece_t *p = pieces[area]; p < pieces[area] + PIECES_MAX; p++) {
        if (readable[area] == 0 && to_of(p) > from_of(p))
            sys_unmap((void *)(hk_window.areas[area] + from_of(p)), to_of(p) - from_of(p));
        set_to(p, 0);
        atomic_store_explicit(&p->from, 0, memory_order_relaxed);
    }
    readable[area] = 0;
}

size_t region_area_size(region_area_t area) {
    size_t end = 0;
    for (int i = 0; i < PIECES_MAX; i++)
        end = hk_max(end, to_of(&pieces[area][i]));
    return end;
}

void region_area_for_each(void (*see)(void *context, const void *start, size_t size), void *context) {
    for (int area = 0; area < REGION_AREA_COUNT; area++)
        for (int i = 0; i < PIECES_MAX; i++) {
            const piece_t *piece = &pieces[area][i];
            size_t to = to_of(piece), from = from_of(piece);
            if (to > from)
                see(context, (const void *)(hk_window.areas[area] + from), to - from);
        }
}

static void add_up(void *sum, const void *start, size_t size) {
    (void)start;
    *(size_t *)sum += size;
}

size_t region_area_bytes(void) {
    size_t sum = 0;
    region_area_for_each(add_up, &sum);
    return sum;
}

typedef struct search {
    uintptr_t address;
    bool found;
} search_t;

static void compare(void *context, const void *start, size_t size) {
    search_t *search = context;
    search->found |= search->address - (uintptr_t)start < size;
}

bool region_area_has(const void *address) {
    search_t search = {(uintptr_t)address, false};
    region_area_for_each(compare, &search);
    return search.found;
}
