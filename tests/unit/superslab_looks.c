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

residency_t residency_of(const char *from, size_t size) {
    CHECK(map_slot(from) % SLOTS == 0 && size == HK_SUPERSLAB_SIZE);
    looks++;
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
    in_child(soon_learned);
    in_child(soon_unlearned);
    in_child(mixed);
    return CHECK_PASS;
}
