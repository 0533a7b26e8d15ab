/* SPDX-License-Identifier: MIT */
#include "heap/visit.h"

#include "base/bits.h"
#include "core/panic.h"
#include "large/huge.h"
#include "sys/sys.h"

#include <errno.h>

enum {
    PLACES_STEP = 8192, /* whole pages, of any size: 100 GiB have more than a piece of metadata memory has room for */
    SLAB_WORDS = HK_SLOT_SIZE / HK_ALIGNMENT / 64,
};

/* Where slabs, runs and huge blocks begin. */
typedef struct places {
    void **at;
    size_t count, most; /* how many there are, and how many have room in `at` */
} places_t;

typedef struct visitor {
    heap_t *heap;
    bool (*visit)(void *block, size_t size, void *context);
    void *context;
} visitor_t;

static void add(places_t *places, void *start) {
    if (places->count < places->most)
        places->at[places->count] = start;
    places->count++;
}

static void add_slabs(places_t *places, slot_t at) {
    for (; at != 0; at = slab_at(at)->next)
        add(places, map_slot_address(at));
}

static void collect(heap_t *h, places_t *places) {
    hk_assert(h->own.id >= HK_OWNER_EXPLICIT);
    heap_lock(h);
    for (unsigned word = 0; word < HK_CLASS_COUNT / 64; word++)
        for (uint64_t classes = h->own.classes[word]; classes != 0; classes &= classes - 1)
            for (unsigned bin = 0; bin < HEAP_BINS; bin++)
                add_slabs(places, h->class_stats[word * 64 + hk_ctz64(classes)].partial[bin]);
    add_slabs(places, h->full);
    for (slot_t at = h->own.runs; at != 0; at = large_links(at)->next)
        add(places, map_slot_address(at));
    size_t huge = h->own.had_huge ? huge_of_owner(h->own.id).count : 0;
    if (places->count + huge <= places->most)
        huge = huge_list(h->own.id, places->at + places->count, huge);
    places->count += huge;
    heap_unlock(h);
}

/* Blocks of the slab that are not free there, as bits; returns its entry in the map, or 0 when the heap has no slab
 * there any more. */
static uint32_t used_of(heap_t *h, const void *base, uint64_t used[SLAB_WORDS]) {
    heap_lock(h);
    uint32_t entry = map_lookup(base);
    unsigned cls = entry & HK_MAP_CLASS_MAX;
    bool is = entry >> 8 == h->own.id && cls < HK_CLASS_COUNT && slab_base(slab_of(base, cls)) == base;
    for (unsigned w = 0; is && w < slab_word_count(slab_of(base, cls)); w++) {
        const slab_t *slab = slab_of(base, cls);
        unsigned here = (unsigned)hk_min(slab->block_count - w * 64u, 64);
        used[w] = ~slab->free_bits[w] & hk_low_mask64(here);
    }
    heap_unlock(h);
    return is ? entry : 0;
}

/* Live, and not in a lease or on its way home. Who is called may have freed the rest of the slab, whose place serves
 * somebody else by now. */
static bool is_still_there(const char *block, uint32_t entry) {
    return map_lookup(block) == entry && map_is_live(map_granule(block));
}

static bool visit_slab(const visitor_t *v, char *base) {
    uint64_t used[SLAB_WORDS];
    uint32_t entry = used_of(v->heap, base, used);
    if (entry == 0)
        return true;
    unsigned cls = entry & HK_MAP_CLASS_MAX;
    size_t size = hk_class_info[cls].block_size;
    for (unsigned w = 0; w * 64 < hk_class_info[cls].block_count; w++)
        for (uint64_t bits = used[w]; bits != 0; bits &= bits - 1) {
            char *block = base + (w * 64 + hk_ctz64(bits)) * size;
            if (is_still_there(block, entry) && !v->visit(block, size, v->context))
                return false;
        }
    return true;
}

static bool visit_run(const visitor_t *v, void *start) {
    hk_assert((uintptr_t)start % HK_SLOT_SIZE == 0);
    heap_lock(v->heap);
    uint32_t entry = map_lookup(start);
    bool is = entry >> 8 == v->heap->own.id && map_is_run(entry);
    size_t size = is ? large_size(start) : 0;
    heap_unlock(v->heap);
    return !is || v->visit(start, size, v->context);
}

static bool visit_place(const visitor_t *v, void *start) {
    void *found;
    size_t size;
    if (map_is_run(map_lookup(start)))
        return visit_run(v, start);
    if (map_lookup(start) != 0)
        return visit_slab(v, start);
    return huge_owner(start) != v->heap->own.id || !huge_find(start, &found, &size) ||
           v->visit(start, size, v->context);
}

int visit_blocks(heap_t *h, bool visit(void *block, size_t size, void *context), void *context) {
    const visitor_t visitor = {h, visit, context};
    places_t places = {.most = PLACES_STEP};
    for (;;) {
        places.count = 0;
        places.at = sys_map(places.most * sizeof *places.at);
        if (places.at == NULL)
            return ENOMEM;
        collect(h, &places);
        if (places.count <= places.most)
            break;
        (void)sys_unmap(places.at, places.most * sizeof *places.at);
        places.most = hk_align_up(places.count + places.count / 8, PLACES_STEP);
    }
    bool go_on = true;
    for (size_t i = 0; i < places.count && go_on; i++)
        go_on = visit_place(&visitor, places.at[i]);
    (void)sys_unmap(places.at, places.most * sizeof *places.at);
    return go_on ? 0 : ECANCELED;
}
