/* SPDX-License-Identifier: MIT
 *
 * How often superslabs are looked at to learn whether a program fills them: rarely where looks change nothing, and
 * never under the superslab lock. The looks are this test's own.
 */
#include "rooms.h"
#include "superslab/residency.h"
#include "superslab/superslab.h"

enum { LARGE_HEAP = 512, SMALL_HEAP = 16 };

static residency_t answer;
static unsigned looks, looks_locked;
static uint32_t looked_at; /* the slots of the last look */

residency_t residency_of_slots(const char *from, uint32_t mask) {
    CHECK_EQ(map_slot(from) % SLOTS, 0);
    looks++;
    looked_at = mask;
    if (hk_try_lock(&hk_superslab_lock))
        hk_unlock(&hk_superslab_lock);
    else
        looks_locked++;
    return answer;
}

static void start(void) {
    start_map();
    answer = RESIDENCY_SOME;
}

/* Takes so many superslabs whole. Returns how many asked for huge pages. */
static unsigned open_superslabs(unsigned count) {
    unsigned huge = 0;
    for (unsigned i = 0; i < count; i++) {
        slots_t got = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE);
        CHECK(got.first != 0);
        huge += superslab_view(got.first / SLOTS).huge;
    }
    return huge;
}

/* Slots that small blocks got last tell nothing of those that were there before. */
static void not_at_small_blocks(void) {
    enum { HALF = SLOTS / 2 };
    start();
    for (unsigned i = 0; i < LARGE_HEAP; i++) {
        const slot_t first = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE).first;
        slots_free(first, HALF, true);
        CHECK_EQ(slots_alloc(HALF, HALF, SLOTS_DENSE).first, first);
        CHECK(looks == 0 || looked_at == (uint32_t)(hk_low_mask64(SLOTS - HALF) << HALF));
    }
    CHECK(looks > 0);
    looks = 0;
    for (unsigned i = 0; i < LARGE_HEAP; i++) { /* and are as others once others have them */
        const slot_t first = slots_alloc(SLOTS, SLOTS, SLOTS_SPARSE).first;
        slots_free(first, HALF, true);
        CHECK_EQ(slots_alloc(HALF, HALF, SLOTS_DENSE).first, first);
        slots_free(first, HALF, true);
        CHECK_EQ(slots_alloc(HALF, HALF, SLOTS_SPARSE).first, first);
        if (looks == 0)
            looked_at = UINT32_MAX; /* those before are looked at as well */
        if (i > SMALL_HEAP * 4)
            CHECK_EQ(looked_at, UINT32_MAX);
    }
    CHECK(looks > 0);
}

static void few_looks(void) {
    start();
    CHECK_EQ(open_superslabs(LARGE_HEAP), 0);
    CHECK(looks > 0 && looks <= LARGE_HEAP / 10);
    unsigned before = looks;
    CHECK_EQ(open_superslabs(LARGE_HEAP), 0);
    CHECK(looks > before && looks - before <= 16);
    CHECK_EQ(looks_locked, 0);
}

/* The first full superslab has the next ones looked at, at once: two in a row are a proof. */
static void soon_learned(void) {
    start();
    CHECK_EQ(open_superslabs(LARGE_HEAP), 0);
    answer = RESIDENCY_FULL;
    unsigned until = LARGE_HEAP / 8 + SMALL_HEAP;
    (void)open_superslabs(until);
    CHECK(open_superslabs(SMALL_HEAP) > 0);
    CHECK_EQ(looks_locked, 0);
}

/* And a program that stops filling them is soon found out. */
static void soon_unlearned(void) {
    start();
    answer = RESIDENCY_FULL;
    CHECK(open_superslabs(LARGE_HEAP) > LARGE_HEAP * 3 / 4);
    answer = RESIDENCY_SOME;
    (void)open_superslabs(LARGE_HEAP / 4);
    CHECK_EQ(open_superslabs(LARGE_HEAP), 0);
}

/* A page here and there in some, others full: no two in a row, and no more looks than where none is full. */
static void mixed(void) {
    start();
    unsigned most = 0;
    for (unsigned i = 0; i < LARGE_HEAP; i++) {
        answer = looks % 2 == 0 ? RESIDENCY_FULL : RESIDENCY_SOME;
        (void)open_superslabs(1);
        most = looks;
    }
    CHECK(most > 0 && most <= LARGE_HEAP / 5);
}

int main(void) {
    in_child(few_looks);
    in_child(not_at_small_blocks);
    in_child(soon_learned);
    in_child(soon_unlearned);
    in_child(mixed);
    return CHECK_PASS;
}
