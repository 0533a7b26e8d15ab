/* SPDX-License-Identifier: MIT
 *
 * superslab_check finds each of SUPERSLAB-1..4 broken on purpose, and says which superslab it is; a slot given back
 * twice stops the check build.
 */
#include "rooms.h"
#include "superslab/superslab.h"

#include <signal.h>

static slot_t run;
static char text[2048];

static superslab_t *record(void) {
    return (superslab_t *)hk_window.areas[REGION_AREA_SUPERSLABS] + run / HK_SLOTS_PER_SUPERSLAB;
}

/* Slots 0 and 1 in use, 2 and 3 dirty, the others clean. */
static void prepare(void) {
    start_map();
    run = slots_alloc(4, 1, SLOTS_SPARSE).first;
    slots_free(run + 2, 2, true);
    CHECK_EQ(superslab_check(), 0);
}

static void is_found(void) { CHECK(superslab_check() > 0); }

static void dirty_in_use(void) {
    record()->dirty_mask |= 1;
    is_found();
}

static void not_binned(void) {
    record()->binned = false;
    is_found();
}

static void binned_without_room(void) {
    record()->free_mask = record()->dirty_mask = 0;
    is_found();
}

static void wrong_order(void) {
    record()->order--;
    is_found();
}

static void wrong_count(void) {
    record()->room++;
    is_found();
}

static void not_queued(void) {
    record()->queued = false;
    is_found();
}

static void wrong_length(void) {
    record()->length--;
    is_found();
}

static void lost_slot(void) {
    record()->free_mask &= ~(UINT32_C(1) << 30);
    is_found();
}

static void free_but_absent(void) {
    record()->present_mask &= ~(UINT32_C(1) << 30);
    is_found();
}

static void part_of_huge_pages(void) {
    slot_t last = run + HK_SLOTS_PER_SUPERSLAB - 1;
    bool zeroed;
    CHECK(slots_alloc_at(last, 1, &zeroed));
    record()->present_mask &= ~(UINT32_C(1) << (HK_SLOTS_PER_SUPERSLAB - 1));
    record()->huge = true;
    is_found();
}

static void not_in_use(void) {
    record()->in_use = false;
    is_found();
}

static void given_back_twice(void) { slots_free(run + 3, 1, false); }

static void breaks(void (*body)(void), const char *said) {
    int status = check_child(body, 2, text, sizeof text);
    if (status != 0)
        fprintf(stderr, "%s", text);
    CHECK_EQ(status, 0);
    CHECK_HAS(text, said);
}

int main(void) {
    prepare();
    char superslab[64];
    snprintf(superslab, sizeof superslab, "hakmem: check: superslab %u: free ", run / HK_SLOTS_PER_SUPERSLAB);
    breaks(dirty_in_use, superslab);
    breaks(not_binned, superslab);
    breaks(binned_without_room, superslab);
    breaks(wrong_order, superslab);
    breaks(wrong_count, superslab);
    breaks(not_queued, superslab);
    breaks(wrong_length, "hakmem: check: superslabs with dirty slots: 1 queued, 1 of 1 in lists (1 wrong), 1 flagged");
    breaks(free_but_absent, superslab);
    breaks(part_of_huge_pages, superslab);
    breaks(lost_slot, "hakmem: check: superslabs 1, free slots 30, slots 32; counted 1, 29, 32");
    breaks(not_in_use, "hakmem: check: superslabs 1, free slots 30, slots 32; counted 0, 0, 0");
    if (HK_CHECK) {
        int status = check_child(given_back_twice, 2, text, sizeof text);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        CHECK_HAS(text, "hakmem: invariant broken at ");
    }
    return CHECK_PASS;
}
