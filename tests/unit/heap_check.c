/* SPDX-License-Identifier: MIT
 *
 * hk_check_all finds a broken list of slabs (HEAP-2), and whatever a slab's own check finds.
 */
#include "heap_places.h"

enum { CLS = 63, PER_SLAB = 64, SLABS = 4 };

static heap_t *h;
static char *blocks[SLABS * PER_SLAB];
static char text[4096];

/* Two full slabs and two with room. */
static void prepare(void) {
    h = start_heap();
    for (unsigned i = 0; i < SLABS * PER_SLAB; i++)
        blocks[i] = magazine_alloc(h, CLS);
    for (unsigned i = 0; i < 10; i++) {
        release(blocks[i]);
        release(blocks[PER_SLAB + i]);
    }
    magazine_drop_all(h);
    CHECK(h->full != 0 && slab_at(h->full)->next != 0);
    CHECK_EQ(slab_of(blocks[0], CLS)->free_count, 10);
    CHECK_EQ(hk_check_all(), 0);
}

static slab_t *partial(void) { return slab_of(blocks[0], CLS); }
static slab_t *full(void) { return slab_at(h->full); }

static void is_found(void) { CHECK(hk_check_all() > 0); }

static void back_link(void) {
    slab_at(full()->next)->previous = 0;
    is_found();
}

static void list_flag(void) {
    partial()->list = SLAB_LIST_FULL;
    is_found();
}

/* An empty slab that is nobody's spare. */
static void empty_in_last(void) {
    slab_t *slab = partial();
    slab->free_bits[0] = UINT64_MAX;
    slab->free_count = slab->block_count;
    slab->settle_at = slab->block_count;
    is_found();
}

static void full_in_partial(void) {
    partial()->free_count = 0;
    is_found();
}

static void room_in_full(void) {
    full()->free_bits[0] = 1;
    full()->free_count = 1;
    is_found();
}

static void other_class(void) {
    h->class_stats[CLS - 1].partial[partial()->bin] = slab_slot(partial());
    is_found();
}

static void other_owner(void) {
    atomic_store(&partial()->owner, HK_OWNER_SHARED);
    is_found();
}

static void other_heap(void) {
    heap_shared()->full = h->full;
    is_found();
}

static void bits(void) {
    partial()->free_bits[0] <<= 1;
    partial()->free_count++;
    is_found();
}

static void breaks(void (*body)(void), const char *said) {
    int status = check_child(body, 2, text, sizeof text);
    if (status != 0)
        fprintf(stderr, "%s", text);
    CHECK_EQ(status, 0);
    CHECK_HAS(text, said);
}

int main(void) {
    static const char wrong_list[] = " is in the wrong list\n";
    prepare();
    breaks(back_link, wrong_list);
    breaks(list_flag, wrong_list);
    breaks(empty_in_last, wrong_list);
    breaks(full_in_partial, wrong_list);
    breaks(room_in_full, wrong_list);
    breaks(other_class, wrong_list);
    breaks(other_owner, wrong_list);
    breaks(other_heap, wrong_list);
    breaks(bits, "hakmem: check: slab at ");
    CHECK_EQ(hk_check_all(), 0);
    return CHECK_PASS;
}
