/* SPDX-License-Identifier: MIT
 *
 * Haste: a credit of slots that comes with time, that purges spend, and that regret takes away. While memory grows,
 * slots that serve nobody go back as far as it reaches; a program that soon takes them again has none left.
 */
#include "superslab/haste.h"
#include "rooms.h"
#include "superslab/superslab.h"

static void by_the_clock(void) {
    haste_t haste = {0};
    uint64_t now = 1000000;
    CHECK_EQ(haste_allows(&haste, now), HASTE_CREDIT_MAX);
    haste_spend(&haste, HASTE_CREDIT_MAX - 10);
    CHECK_EQ(haste_allows(&haste, now), 10);
    haste_spend(&haste, 10);
    CHECK_EQ(haste_allows(&haste, now), 0);
    /* What time brings, whoever asks how often, and no more than can be saved up. */
    for (unsigned i = 0; i < 20; i++)
        CHECK_EQ(haste_allows(&haste, now += 5), (i + 1) * 5 * HASTE_CREDIT_A_MS);
    CHECK_EQ(haste_allows(&haste, now += UINT32_MAX), HASTE_CREDIT_MAX);
    /* A clock that goes back brings nothing. */
    haste_spend(&haste, HASTE_CREDIT_MAX);
    CHECK_EQ(haste_allows(&haste, now - 5), 0);
}

/* Who regrets every slot has a fraction of the credit of who regrets none, and pays off a debt first. */
static void regret(void) {
    haste_t calm = {0}, torn = {0};
    uint64_t now = 1000000;
    size_t went = 0, went_torn = 0;
    for (unsigned ms = 0; ms < 10000; ms++, now++) {
        size_t slots = hk_min(haste_allows(&calm, now), 8);
        haste_spend(&calm, slots);
        went += slots;
        slots = hk_min(haste_allows(&torn, now), 8);
        haste_spend(&torn, slots);
        haste_regret(&torn, slots);
        went_torn += slots;
    }
    CHECK_EQ(went, HASTE_CREDIT_MAX + 9999 * HASTE_CREDIT_A_MS);
    CHECK(went_torn * HASTE_REGRET <= went + 8 * HASTE_REGRET);
    haste_regret(&calm, SIZE_MAX);
    CHECK_EQ(haste_allows(&calm, now += HASTE_DEBT_MAX / HASTE_CREDIT_A_MS - 10), 0);
    CHECK(haste_allows(&calm, now + 300) > 0);
}

/* A phase is over when more lies free than half of what is in use; growth wants all that nobody needs. */
static void wants(void) {
    CHECK_EQ(haste_wants(100, 1000, false), 0);
    CHECK_EQ(haste_wants(500, 1000, false), 0);
    CHECK_EQ(haste_wants(1000, 100, false), 950);
    CHECK_EQ(haste_wants(100, 1000, true), 100);
    CHECK_EQ(haste_wants(0, 0, false), 0);
}

static slot_t grow(void) {
    slot_t first = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE).first;
    CHECK(first != 0);
    return first;
}

/* What lies free is more than half of what is used, and goes without any growth; that half stays. */
static void a_phase_is_over(void) {
    slot_t runs[8];
    for (unsigned i = 0; i < 8; i++)
        runs[i] = grow();
    for (unsigned i = 0; i < 8; i++)
        slots_free(runs[i] + 1, SLOTS - 1, true);
    size_t used = superslab_used_slots(), dirty = superslab_dirty_bytes() >> HK_SLOT_SHIFT;
    CHECK_EQ(used, 8);
    CHECK_EQ(dirty, 8 * (SLOTS - 1));
    size_t wanted = haste_wants(dirty, used, false);
    CHECK_EQ(wanted, dirty - used / 2);
    size_t went = superslab_purge_in_haste(wanted) >> HK_SLOT_SHIFT;
    CHECK(went > 0 && went <= wanted);
    CHECK_EQ(superslab_used_slots(), used);
}

/* Every second slot of two superslabs lies free: no slab of a superslab's length can have them. */
static void free_slots_that_serve_nobody(slot_t runs[2]) {
    for (unsigned i = 0; i < 2; i++) {
        runs[i] = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE).first;
        CHECK(runs[i] != 0);
        for (unsigned k = 0; k < SLOTS; k += 2)
            slots_free(runs[i] + k, 1, true);
    }
}

static void growth_pays(void) {
    slot_t runs[2];
    free_slots_that_serve_nobody(runs);
    CHECK(superslab_dirty_bytes() >= HK_SUPERSLAB_SIZE / 2);
    (void)superslab_grown();
    (void)grow();
    CHECK_EQ(superslab_dirty_bytes(), 0);
    CHECK_EQ(superslab_grown(), SLOTS);
    CHECK_EQ(superslab_grown(), 0);
    CHECK_EQ(superslab_check(), 0);
}

static void not_beyond_the_credit(void) {
    slot_t runs[2];
    superslab_went_in_haste(SIZE_MAX);
    free_slots_that_serve_nobody(runs);
    CHECK(!superslab_may_haste());
    (void)grow();
    CHECK_EQ(superslab_dirty_bytes(), HK_SUPERSLAB_SIZE);
    CHECK_EQ(superslab_purge_in_haste(SLOTS), 0);
}

/* What serves is taken: memory does not grow, and nothing goes. */
static void nothing_grows(void) {
    slot_t runs[2];
    superslab_went_in_haste(SIZE_MAX);
    free_slots_that_serve_nobody(runs);
    (void)superslab_grown();
    for (unsigned i = 0; i < SLOTS; i++)
        CHECK(slots_alloc(1, 1, SLOTS_SPARSE).first != 0);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    CHECK_EQ(superslab_grown(), 0);
}

/* Slots that go and are taken again, also by way of the region: soon nothing goes any more. */
static void regretted(void) {
    slot_t first = grow();
    unsigned went = 0;
    for (unsigned i = 0; i < 1000; i++) {
        slots_free(first, SLOTS, true);
        went += superslab_purge_in_haste(SLOTS) > 0;
        CHECK_EQ(grow(), first);
    }
    CHECK(went > 0 && went < 100);
    CHECK(!superslab_may_haste());
}

int main(void) {
    start_map();
    by_the_clock();
    regret();
    wants();
    in_child(a_phase_is_over);
    in_child(growth_pays);
    in_child(not_beyond_the_credit);
    in_child(nothing_grows);
    in_child(regretted);
    return CHECK_PASS;
}
