/* SPDX-License-Identifier: MIT
 *
 * Where a run goes: where most of it is resident, across superslabs and out of line with them, in the shortest hole
 * that serves; and what lies dirty goes back as memory grows beside it.
 */
#include "rooms.h"
#include "superslab_totals.h"

#include <sys/resource.h>
#include <time.h>

enum { KEPT = 64 };

static slots_t take(size_t count) {
    slots_t got = slots_alloc(count, 1, SLOTS_SPARSE);
    CHECK(got.first != 0);
    CHECK_EQ(superslab_check(), 0);
    return got;
}

static void give(slot_t first, size_t count) {
    slots_free_for_reuse(first, count);
    CHECK_EQ(superslab_check(), 0);
}

static size_t dirty_slots(void) { return superslab_dirty_bytes() >> HK_SLOT_SHIFT; }

static void start_clean(void) {
    (void)superslab_purge(SIZE_MAX);
    superslab_close_empty();
    CHECK_EQ(superslab_totals().superslab_count, 0);
}

/* Ten superslabs in a row, all taken. */
static slot_t field(void) { return take(10 * SLOTS).first; }

static void across(void) {
    start_map();
    slot_t all = field();
    give(all + 20, 100);
    slots_t got = take(100);
    CHECK(got.first == all + 20 && !got.zeroed);
    CHECK_EQ(dirty_slots(), 0);
    /* Shorter than a superslab and in two of them. */
    give(all + SLOTS - 5, 10);
    CHECK_EQ(take(10).first, all + SLOTS - 5);
    /* Not over one that is in use. */
    bool zeroed;
    give(all + 200, 4);
    CHECK(!slots_alloc_at(all + 200, 5, &zeroed) && !slots_alloc_at(all + 199, 2, &zeroed));
    CHECK_EQ(superslab_check(), 0);
    CHECK(slots_alloc_at(all + 200, 4, &zeroed));
    /* A slab's slots are aligned. */
    give(all + SLOTS - 5, 10);
    CHECK(slots_alloc(8, 8, SLOTS_SPARSE).first != all + SLOTS - 5);
}

static void shortest(void) {
    start_map();
    slot_t all = field();
    give(all + 10, 50);
    give(all + 100, 42);
    give(all + 200, 45);
    CHECK_EQ(take(41).first, all + 100);
    CHECK_EQ(take(45).first, all + 200);
    CHECK_EQ(take(46).first, all + 10);
}

/* A hole that serves is found among any number of shorter ones, also by who needs aligned slots. */
static void among_many(void) {
    enum { SUPERSLABS = 600, SHORT = 3, HOLE = 9, SLAB = 4 };
    char *environment[] = {(char *)(uintptr_t) "HAKMEM_PURGE_DELAY=-1", NULL};
    hk_options_init(environment);
    CHECK_EQ(region_init(), 0);
    map_init();
    slot_t all = take((size_t)SUPERSLABS * SLOTS).first, last = all + (SUPERSLABS - 1) * SLOTS;
    for (slot_t first = all; first < all + SUPERSLABS * SLOTS; first += SLOTS)
        for (slot_t at = 1; at + 2 * SHORT <= SLOTS; at += 2 * SHORT)
            slots_free_for_reuse(first + at, SHORT);
    give(last + 16, SHORT); /* between two holes: three become one */
    CHECK_EQ(take(HOLE).first, last + 13);
    give(last + 13, HOLE);
    CHECK_EQ(slots_alloc(SLAB, SLAB, SLOTS_SPARSE).first, last + 16);
    CHECK_EQ(superslab_check(), 0);
}

/* When memory is out, a clean hole across superslabs serves too. */
static void out_of_memory(void) {
    start_map();
    slot_t all = field();
    slots_free(all + SLOTS - 6, 12, false);
    struct rlimit none = {0, 0};
    CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
    CHECK_EQ(slots_alloc(13, 1, SLOTS_SPARSE).first, 0);
    CHECK_EQ(take(12).first, all + SLOTS - 6);
    CHECK_EQ(slots_alloc(2 * SLOTS, 1, SLOTS_SPARSE).first, 0);
}

/* What is resident of a hole counts, wherever in it it lies. */
static void partly(void) {
    start_map();
    slot_t all = field();
    give(all + 40, 3);
    slots_free(all + 43, 20, false);
    slots_free(all + 100, 30, false);
    slots_t got = take(20);
    CHECK(got.first == all + 40 && !got.zeroed);
}

/* A run that is longer than what lies there goes on with new superslabs. */
static void into_the_new(void) {
    start_map();
    slot_t first = take(2 * SLOTS).first;
    give(first, 2 * SLOTS);
    slots_t got = take(5 * SLOTS);
    CHECK(got.first <= first && got.first + 5 * SLOTS >= first + 2 * SLOTS && !got.zeroed);
    CHECK_EQ(dirty_slots(), 0);
    CHECK_EQ(superslab_totals().superslab_count, 5);
    slots_free(got.first, 5 * SLOTS, true);
}

/* Holes that serve nobody are given back as memory grows, but for a share. */
static void growth(void) {
    start_map();
    slot_t all = field();
    for (size_t at = 10; at + 30 <= 10 * SLOTS; at += 30)
        give(all + (slot_t)at, 20);
    size_t before = dirty_slots();
    CHECK(before > 2 * KEPT);
    (void)take(3 * SLOTS);
    CHECK(dirty_slots() <= before - SLOTS);
    for (unsigned i = 0; i < 10; i++)
        (void)take(3 * SLOTS);
    size_t kept = hk_max(KEPT, (superslab_taken_bytes() >> HK_SLOT_SHIFT) / 8);
    CHECK(dirty_slots() <= kept);
    CHECK(dirty_slots() > 0);
    atomic_store(&hk_limit_near, true);
    for (unsigned i = 0; i < 10; i++)
        (void)take(3 * SLOTS);
    CHECK_EQ(dirty_slots(), 0);
}

static void growth_without_purging(void) {
    char *environment[] = {(char *)(uintptr_t) "HAKMEM_PURGE_DELAY=-1", NULL};
    hk_options_init(environment);
    CHECK_EQ(region_init(), 0);
    map_init();
    slot_t all = field();
    for (size_t at = 10; at + 30 <= 10 * SLOTS; at += 30)
        give(all + (slot_t)at, 20);
    size_t before = dirty_slots();
    for (unsigned i = 0; i < 10; i++)
        (void)take(3 * SLOTS);
    CHECK_EQ(dirty_slots(), before);
}

/* Random runs: nothing overlaps, all of it comes back, and holes do not make memory grow without end. */
static uint64_t processor_ns(void) {
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The least time of a few that a long run takes. */
static uint64_t long_run_ns(void) {
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < 10; i++) {
        uint64_t begin = processor_ns();
        CHECK(slots_alloc(SLOTS + 8, 1, SLOTS_SPARSE).first != 0);
        least = hk_min(least, processor_ns() - begin);
    }
    return least;
}

/* Two free stretches of a GiB, whose superslabs became dirty one after the other, or in turns. No page is touched. */
static uint64_t two_stretches_ns(bool in_turns) {
    enum { LENGTH = 512 };
    static slot_t of[2][LENGTH];
    (void)superslab_purge(SIZE_MAX);
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < LENGTH; i++)
            CHECK((of[k][i] = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE).first) != 0);
        CHECK(slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE).first != 0);
    }
    for (unsigned i = 0; i < 2 * LENGTH; i++)
        slots_free_for_reuse(in_turns ? of[i % 2][i / 2] : of[i / LENGTH][i % LENGTH], SLOTS);
    return long_run_ns();
}

/* However the stretches alternate, each is gone over a few times: every look at one would be forty times as much. */
static void in_turns(void) {
    start_map();
    uint64_t after_another = two_stretches_ns(false), turns = two_stretches_ns(true);
    CHECK(turns < 8 * after_another);
}

static void at_random(void) {
    enum { LIVE = 60, ROUNDS = 20000 };
    struct {
        slot_t first;
        size_t count;
    } live[LIVE] = {{0, 0}};
    uint64_t random = 7;
    size_t most = 0, held = 0, peak = 0;
    start_map();
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned at = (unsigned)(next_random(&random) % LIVE);
        for (size_t k = 0; k < live[at].count; k++)
            CHECK_EQ(*map_slot_address(live[at].first + (slot_t)k), (char)at);
        if (live[at].count != 0)
            slots_free_for_reuse(live[at].first, live[at].count);
        held -= live[at].count;
        live[at].count = 5 + next_random(&random) % (UINT64_C(1) << (3 + next_random(&random) % 5));
        live[at].first = slots_alloc(live[at].count, 1, SLOTS_SPARSE).first;
        held += live[at].count;
        for (size_t k = 0; k < live[at].count; k++)
            *map_slot_address(live[at].first + (slot_t)k) = (char)at;
        peak = hk_max(peak, held);
        most = hk_max(most, superslab_taken_bytes() >> HK_SLOT_SHIFT);
        if (i % 1000 == 0)
            CHECK_EQ(superslab_check(), 0);
    }
    CHECK(most < 2 * peak);
    for (unsigned at = 0; at < LIVE; at++)
        if (live[at].count != 0)
            slots_free_for_reuse(live[at].first, live[at].count);
    CHECK_EQ(superslab_totals().free_slots, superslab_totals().superslab_count * SLOTS);
    start_clean();
}

/* Of which little will be used: clean slots, as long as the superslab has some. */
static void clean_first(void) {
    start_map();
    const slot_t first = take(1).first;
    give(first, 1);
    slots_t got = slots_alloc(1, 1, SLOTS_SPARSE | SLOTS_CLEAN);
    CHECK(got.first == first + 1 && got.zeroed);
    CHECK_EQ(take(1).first, first); /* what is resident serves who fills it */
    got = slots_alloc(SLOTS / 2, SLOTS / 2, SLOTS_SPARSE);
    CHECK(got.first == first + SLOTS / 2);
    for (unsigned at = 2; at < SLOTS / 2; at++)
        CHECK_EQ(slots_alloc(1, 1, SLOTS_SPARSE | SLOTS_CLEAN).first, first + at);
    give(first, 1);
    CHECK_EQ(slots_alloc(1, 1, SLOTS_SPARSE | SLOTS_CLEAN).first, first); /* and not another superslab */
    CHECK_EQ(superslab_totals().superslab_count, 1);
    CHECK_EQ(superslab_check(), 0);
}

int main(void) {
    superslab_went_in_haste(SIZE_MAX); /* growth purges by its bound alone */
    in_child(across);
    in_child(shortest);
    in_child(among_many);
    in_child(out_of_memory);
    in_child(partly);
    in_child(into_the_new);
    in_child(growth);
    in_child(growth_without_purging);
    in_child(in_turns);
    in_child(clean_first);
    in_child(at_random);
    return CHECK_PASS;
}
