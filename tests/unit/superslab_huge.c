/* SPDX-License-Identifier: MIT
 *
 * Sparse superslabs ask for huge pages when those before them were filled, by how many slots they were opened for; one
 * in nine (in a large heap, in more) does not, to be looked at. What is asked for is in the records, whatever the
 * kernel does with it.
 */
#include "rooms.h"
#include "superslab_totals.h"

enum { EARLY = 7, LATE = 24, CYCLE = 9 };

static void start(const char *huge) {
    char *environment[] = {(char *)(uintptr_t)huge, NULL};
    hk_options_init(environment);
    CHECK_EQ(region_init(), 0);
    map_init();
}

/* Takes a superslab's worth of slots, `count` at a time, and writes a byte each `step` bytes. True when it asks for
 * huge pages. */
static bool fill_superslab(size_t count, size_t step) {
    slot_t first = 0;
    for (size_t done = 0; done < SLOTS; done += count) {
        slots_t got = slots_alloc(count, count, SLOTS_SPARSE);
        CHECK(got.first != 0 && got.zeroed);
        first = done == 0 ? got.first : first;
        CHECK_EQ(got.first, first + done); /* what is left of a superslab serves before the next is opened */
        char *memory = map_slot_address(got.first);
        CHECK(all_zeros(memory, 4096));
        for (size_t at = 0; at < count << HK_SLOT_SHIFT; at += step)
            memory[at] = 1;
    }
    CHECK_EQ(superslab_check(), 0);
    return superslab_view(first / SLOTS).huge;
}

static unsigned huge_of(unsigned superslabs, size_t count, size_t step) {
    unsigned huge = 0;
    for (unsigned i = 0; i < superslabs; i++)
        huge += fill_superslab(count, step);
    return huge;
}

static void filled(void) {
    CHECK_EQ(huge_of(EARLY, 2, 4096), 0); /* a small heap */
    (void)huge_of(LATE, 2, 4096);
    unsigned huge = huge_of(8 * CYCLE, 2, 4096);
    CHECK(huge >= 8 * (CYCLE - 1) && huge < 8 * CYCLE);
}

/* Nothing was seen of slots by the sixteen, until they are filled, too. */
static void by_size(void) {
    filled();
    CHECK(huge_of(CYCLE, 4, 4096) >= CYCLE - 1);
    CHECK_EQ(huge_of(EARLY, 16, 4096), 0);
    (void)huge_of(LATE, 16, 4096);
    CHECK(huge_of(CYCLE, 16, 4096) >= CYCLE - 1);
}

/* A page in four is used; small pages are needed to see it. */
static void used_here_and_there(void) {
    CHECK_EQ(huge_of(2 * LATE, 2, 16384), 0);
    (void)huge_of(LATE, 2, 4096);
    CHECK(huge_of(CYCLE, 2, 4096) >= CYCLE - 1);
    CHECK(huge_of(3 * CYCLE, 2, 16384) < 3 * (CYCLE - 1));
    CHECK_EQ(huge_of(4 * CYCLE, 2, 16384), 0);
}

/* The rest of a superslab with huge pages is resident with it, and goes back when it is not needed. */
static void brought_along(void) {
    filled();
    while (!fill_superslab(2, 4096))
        ;
    size_t before = superslab_totals().dirty_slots;
    slots_t got = slots_alloc(2, 2, SLOTS_SPARSE);
    bool huge = superslab_view(got.first / SLOTS).huge;
    CHECK_EQ(superslab_totals().dirty_slots - before, huge ? SLOTS - 2 : 0);
    if (huge)
        CHECK_EQ(superslab_purge(SIZE_MAX), (SLOTS - 2) * HK_SLOT_SIZE);
    CHECK_EQ(superslab_totals().dirty_slots, 0);
    CHECK(!superslab_view(got.first / SLOTS).huge);
    slots_t run = slots_alloc(SLOTS + 8, 1, SLOTS_SPARSE);
    CHECK(run.first != 0 && run.zeroed);
    CHECK_EQ(superslab_check(), 0);
}

/* Memory that grows makes what lies dirty go back, also where it grows by huge pages. */
static void growth_pays(void) {
    enum { LOOSE = 64 * SLOTS };
    static slot_t loose[LOOSE];
    filled();
    for (unsigned i = 0; i < LOOSE; i++)
        loose[i] = slots_alloc(1, 1, SLOTS_SPARSE).first;
    for (unsigned i = 0; i < LOOSE; i += 2)
        slots_free(loose[i], 1, true);
    CHECK(superslab_totals().dirty_slots >= LOOSE / 2);
    CHECK(huge_of(40, 2, 4096) > 30);
    CHECK(superslab_totals().dirty_slots <= superslab_taken_bytes() / 8 / HK_SLOT_SIZE);
}

/* Long runs are another matter: that they are filled says nothing about runs of a few slots. */
static void long_runs(void) {
    for (unsigned i = 0; i < 40; i++) {
        slots_t run = slots_alloc(100, 1, SLOTS_SPARSE);
        CHECK(run.first != 0);
        memset(map_slot_address(run.first), 1, 100 * HK_SLOT_SIZE);
        slots_free(run.first + 96, 4, true); /* where the next one begins */
    }
    for (unsigned i = 0; i < 16; i++)
        CHECK(!superslab_view(slots_alloc(16, 16, SLOTS_SPARSE).first / SLOTS).huge);
}

/* The last superslab of a run asks too, as the next run begins in what this one leaves of it. One that is aligned to
 * superslabs cannot, so there the last one asks only when the run takes all of it. */
static void aligned_runs(void) {
    filled();
    for (size_t align = 1; align <= 2 * SLOTS; align *= 2) {
        slots_t run = slots_alloc(2 * SLOTS + 8, align, SLOTS_DENSE),
                whole = slots_alloc(2 * SLOTS, align, SLOTS_DENSE);
        CHECK(superslab_view(run.first / SLOTS).huge && superslab_view(run.first / SLOTS + 1).huge);
        CHECK_EQ(superslab_view((run.first + 2 * SLOTS) / SLOTS).huge, align < SLOTS);
        CHECK(superslab_view((whole.first + SLOTS) / SLOTS).huge);
        slots_free(run.first, 2 * SLOTS + 8, true);
        slots_free(whole.first, 2 * SLOTS, true);
        (void)superslab_purge(SIZE_MAX);
    }
}

/* A table that grows in place slot by slot does not tell how slabs of a slot are filled. */
static void grown_in_place(void) {
    filled();
    slots_t table = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE);
    CHECK(table.first != 0);
    bool zeroed;
    for (slot_t end = table.first + SLOTS; end < table.first + 12 * SLOTS; end++) {
        CHECK(slots_alloc_at(end, 1, &zeroed) && zeroed);
        map_slot_address(end)[0] = 1;
    }
    CHECK(huge_of(2 * CYCLE, 2, 4096) >= 2 * (CYCLE - 1));
}

/* What a huge page brought along is still known as resident when growth into it was refused. */
static void refused_growth(void) {
    filled();
    slots_t got = {0};
    do
        got = slots_alloc(2, 2, SLOTS_SPARSE);
    while (!superslab_view(got.first / SLOTS).huge || got.first % SLOTS != 0);
    bool zeroed;
    CHECK(slots_alloc_at(got.first + SLOTS, SLOTS, &zeroed)); /* in its way */
    uint32_t before = superslab_view(got.first / SLOTS).dirty_mask;
    CHECK_EQ(before, UINT32_MAX << 2);
    CHECK(!slots_alloc_at(got.first + 2, SLOTS, &zeroed));
    CHECK_EQ(superslab_view(got.first / SLOTS).dirty_mask, before);
    CHECK_EQ(superslab_check(), 0);
}

static void switched_on(void (*body)(void)) {
    start("HAKMEM_HUGE=auto");
    body();
}

static void on_filled(void) { switched_on(filled); }
static void on_by_size(void) { switched_on(by_size); }
static void on_here_and_there(void) { switched_on(used_here_and_there); }
static void on_growth_pays(void) { switched_on(growth_pays); }
static void on_long_runs(void) { switched_on(long_runs); }
static void on_grown_in_place(void) { switched_on(grown_in_place); }
static void on_refused_growth(void) { switched_on(refused_growth); }
/* Not when there are many such runs: where advice changes the kernel splits a mapping, and the rest of the heap needs
 * some of these places. */
static void many_aligned_runs(void) {
    enum { RUNS = 170, EACH = 2 * SLOTS + 8 };
    filled();
    unsigned small = 0;
    for (unsigned i = 0; i < RUNS; i++)
        small += !superslab_view((slots_alloc(EACH, SLOTS, SLOTS_DENSE).first + 2 * SLOTS) / SLOTS).huge;
    CHECK(small >= 100 && small < 155);
    CHECK(superslab_view((slots_alloc(EACH, SLOTS, SLOTS_DENSE).first + 2 * SLOTS) / SLOTS).huge);
}

static void on_aligned_runs(void) { switched_on(aligned_runs); }
static void on_many_aligned_runs(void) { switched_on(many_aligned_runs); }
static void on_brought_along(void) { switched_on(brought_along); }

static void switched_off(void) {
    start("HAKMEM_HUGE=off");
    CHECK_EQ(huge_of(2 * LATE, 2, 4096), 0);
}

static void forced(void) {
    start("HAKMEM_HUGE=force");
    CHECK_EQ(huge_of(EARLY, 2, 65536), EARLY);
    slots_t aligned = slots_alloc(SLOTS + 8, SLOTS, SLOTS_SPARSE);
    CHECK(superslab_view((aligned.first + SLOTS) / SLOTS).huge);
    /* A run over a superslab that was broken up for a purge, and is clean. */
    slots_t a = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE), b = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE);
    CHECK_EQ(b.first, a.first + SLOTS);
    for (unsigned half = 0; half < SLOTS; half += SLOTS / 2) {
        slots_free(b.first + half, SLOTS / 2, true);
        (void)superslab_purge(SIZE_MAX);
    }
    CHECK(!superslab_view(b.first / SLOTS).huge);
    slots_free(a.first + SLOTS - 8, 8, true);
    CHECK_EQ(slots_alloc(SLOTS + 8, 1, SLOTS_SPARSE).first, a.first + SLOTS - 8);
    CHECK(superslab_view(b.first / SLOTS).huge);
}

int main(void) {
    superslab_went_in_haste(SIZE_MAX); /* growth purges by its bound alone */
    in_child(on_filled);
    in_child(on_by_size);
    in_child(on_here_and_there);
    in_child(on_brought_along);
    in_child(on_growth_pays);
    in_child(on_long_runs);
    in_child(on_grown_in_place);
    in_child(on_refused_growth);
    in_child(on_aligned_runs);
    in_child(on_many_aligned_runs);
    in_child(switched_off);
    in_child(forced);
    return CHECK_PASS;
}
