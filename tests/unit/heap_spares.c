/* SPDX-License-Identifier: MIT
 *
 * Empty slabs that a heap keeps are found without a walk over those that hold a block, are taken after those, and go in
 * a round.
 */
#include "heap_places.h"

enum { CLS = 63, PER_SLAB = 64, SLABS = 40, OTHER = 60 };

static heap_t *h;
static void *blocks[SLABS * PER_SLAB];

/* An empty slab, and after it SLABS slabs of a block each. */
static void prepare(void) {
    h = start_heap();
    for (unsigned i = 0; i < SLABS * PER_SLAB; i++)
        blocks[i] = magazine_alloc(h, CLS);
    magazine_drop_all(h);
    /* What was left in the magazine is of the last slab, so what comes next may be, too. */
    static void *rest[PER_SLAB];
    unsigned count = 0;
    do
        rest[count] = magazine_alloc(h, CLS);
    while (slab_of(rest[count++], CLS)->free_count < PER_SLAB / 2 && count < PER_SLAB);
    for (unsigned i = 0; i < count; i++)
        release(rest[i]);
    magazine_drop_all(h);
    for (unsigned i = 0; i < SLABS * PER_SLAB; i++)
        if (i % PER_SLAB != 0)
            release(blocks[i]);
    magazine_drop_all(h);
    all_is_well();
}

static slot_t *emptiest(void) { return &h->class_stats[CLS].partial[HEAP_BINS - 1]; }

static unsigned spares(void) {
    unsigned count = 0;
    for (slot_t at = *emptiest(); at != 0; at = slab_at(at)->next)
        count += slab_is_empty(slab_at(at));
    return count;
}

static void retire(void) {
    heap_lock(h);
    heap_close_spares_locked(h);
    heap_unlock(h);
}

static void goes(void) {
    prepare();
    CHECK_EQ(spares(), 1);
    uint32_t before = h->class_stats[CLS].slab_count;
    retire();
    CHECK_EQ(spares(), 0);
    CHECK_EQ(h->class_stats[CLS].slab_count, before - 1);
    all_is_well();
}

/* The list leads nowhere behind its first slab. */
static void without_a_walk(void) {
    prepare();
    retire();
    slab_t *first = slab_at(*emptiest());
    CHECK(first->next != 0);
    slot_t next = first->next;
    first->next = UINT32_MAX;
    uint32_t before = h->class_stats[CLS].slab_count;
    retire();
    CHECK_EQ(h->class_stats[CLS].slab_count, before);
    first->next = next;
    all_is_well();
}

static void comes_last(void) {
    prepare();
    CHECK_EQ(spares(), 1);
    void *block = magazine_alloc(h, CLS);
    CHECK_EQ(spares(), 1);
    release(block);
    magazine_drop_all(h);
    retire();
    CHECK_EQ(spares(), 0);
    all_is_well();
}

/* It serves before another is opened, and is no spare then. */
static void serves(void) {
    h = start_heap();
    release(magazine_alloc(h, OTHER));
    magazine_drop_all(h);
    CHECK(slab_is_empty(slab_at(h->class_stats[OTHER].partial[HEAP_BINS - 1])));
    void *block = magazine_alloc(h, OTHER);
    CHECK_EQ(h->class_stats[OTHER].slab_count, 1);
    retire();
    CHECK_EQ(h->class_stats[OTHER].slab_count, 1);
    all_is_well();
    release(block);
    magazine_drop_all(h);
    retire();
    CHECK_EQ(h->class_stats[OTHER].slab_count, 0);
    all_is_well();
}

int main(void) {
    in_child(goes);
    in_child(without_a_walk);
    in_child(comes_last);
    in_child(serves);
    return CHECK_PASS;
}
