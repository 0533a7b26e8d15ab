/* SPDX-License-Identifier: MIT
 *
 * The check build verifies while the program runs: ticks call the walkers, and a slab is looked at when it settles.
 * Each invariant is broken once, on purpose. So is what records, masks and numbers must be where they are used, and
 * what `_locked` promises.
 */
#include "heap_places.h"
#include "superslab/bins.h"

enum { SAID_MAX = 600, SIZE = 1000, TICKS = 16 };

static void *kept;

static heap_t *start_verifying(void) {
    heap_t *h = start_heap();
    heap_verify_by(hk_check_all);
    kept = heap_malloc_slow(SIZE);
    return h;
}

static void run_ticks(heap_t *h) {
    for (unsigned i = 0; i < TICKS; i++)
        heap_tick(h);
}

static void is_caught(void (*mistake)(void), const char *said) {
    char text[SAID_MAX];
    int status = check_child(mistake, 2, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_HAS(text, said);
}

static void nothing_is_wrong(void) { run_ticks(start_verifying()); }

/* SUPERSLAB-1 */
static void dirty_but_not_free(void) {
    heap_t *h = start_verifying();
    superslab_t *s = pool_record(map_slot(kept) / SLOTS);
    s->dirty_mask = ~s->free_mask;
    run_ticks(h);
}

static void tag_of_nobody(void) {
    heap_t *h = start_verifying();
    map_set((slot_t)map_slot(kept), 1, map_tag(HK_OWNER_LIMIT - 1) | class_of(SIZE));
    run_ticks(h);
}

/* HEAP-2 */
static void slab_in_no_list(void) {
    heap_t *h = start_verifying();
    slab_of(kept, class_of(SIZE))->list = SLAB_LIST_FULL;
    run_ticks(h);
}

static void count_that_settles(void) {
    heap_t *h = start_verifying();
    slab_t *slab = slab_of(kept, class_of(SIZE));
    heap_lock(h);
    slab->free_count--;
    heap_settle_locked(h, slab);
    heap_unlock(h);
}

static void neighbour_that_is_none(void) {
    heap_t *h = start_verifying();
    slab_t *slab = slab_of(kept, class_of(SIZE));
    heap_lock(h);
    slab->previous = slab_slot(slab);
    slab->next = 0;
    slab->free_count = 0;
    heap_remove_locked(h, slab);
    heap_unlock(h);
}

/* --- Where a number, an entry or a mask becomes a record ---------------------------------------------------------- */

static void lock_that_nobody_holds(void) {
    heap_t *h = start_verifying();
    heap_settle_locked(h, slab_of(kept, class_of(SIZE)));
}

static void take_from_slab(void) {
    granule_t end[1];
    (void)slab_take(slab_of(kept, class_of(SIZE)), end + 1, 1);
}

static void record_of_other_blocks(void) {
    (void)start_verifying();
    slab_of(kept, class_of(SIZE))->block_count--;
    take_from_slab();
}

static void record_that_the_table_does_not_know(void) {
    (void)start_verifying();
    map_set((slot_t)map_slot(kept), 1, map_tag(HK_OWNER_LIMIT - 1) | class_of(SIZE));
    take_from_slab();
}

static void slot_beyond_the_table(void) {
    (void)start_verifying();
    (void)slab_at((slot_t)map_count());
}

static void owner_that_is_none(void) {
    (void)start_verifying();
    (void)heap_by_id(HK_OWNER_NONE);
}

static void mask_of_taken_slots(void) {
    (void)start_verifying();
    hk_lock(&hk_superslab_lock);
    superslab_t *s = pool_record(map_slot(kept) / SLOTS);
    (void)pool_take_locked(s, ~s->free_mask);
}

static void live_bit_outside_the_window(void) {
    heap_t *h = start_verifying();
    map_set_live_shared(map_granule((const char *)&h));
}

static void records_are_checked(void) {
    is_caught(lock_that_nobody_holds, "hk_lock_is_held(&h->lock)");
    is_caught(record_of_other_blocks, "slab->block_count == hk_class_info[slab->cls].block_count");
    is_caught(record_that_the_table_does_not_know, "map_entry(slot) == (map_tag(owner) | slab->cls)");
    is_caught(slot_beyond_the_table, "slot < map_count()");
    is_caught(owner_that_is_none, "id != HK_OWNER_NONE");
    is_caught(mask_of_taken_slots, "(s->free_mask & mask) == mask");
    is_caught(live_bit_outside_the_window, "map_granule_slot(granule) < map_count()");
}

int main(void) {
    in_child(nothing_is_wrong);
    is_caught(dirty_but_not_free, "check: superslab");
    is_caught(tag_of_nobody, "check: slab at");
    is_caught(slab_in_no_list, "is in the wrong list");
    is_caught(count_that_settles, "blocks free, counted");
    is_caught(neighbour_that_is_none, "slab->previous");
    records_are_checked();
    return CHECK_PASS;
}
