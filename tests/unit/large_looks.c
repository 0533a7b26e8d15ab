/* SPDX-License-Identifier: MIT
 *
 * How often long runs are looked at to learn whether a program fills them: rarely where it does not, also when all are
 * kept. The looks are this test's own.
 */
#include "large/large.h"
#include "rooms.h"
#include "superslab/residency.h"
#include "superslab/superslab.h"

enum { RUNS = 128 };
#define LONG_RUN (16 * HK_MIB)

static large_counts_t counts;
static residency_t answer;
static unsigned looks;

residency_t residency_of(const char *from, size_t size) {
    CHECK(from != NULL && size == HK_SUPERSLAB_SIZE);
    looks++;
    return answer;
}

residency_t residency_of_slots(const char *from, uint32_t mask) {
    (void)from, (void)mask;
    return RESIDENCY_UNKNOWN;
}

static void start(void) { start_slab(); }

static char *take(void) {
    char *block = large_alloc(&counts, LONG_RUN, 1, NULL);
    CHECK(block != NULL);
    return block;
}

/* Fresh ones, freed at once. */
static void cycles(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        CHECK(large_free(&counts, take(), true));
        (void)superslab_purge(SIZE_MAX);
    }
}

static void freed_runs(residency_t share, unsigned most) {
    start();
    answer = share;
    cycles(RUNS);
    CHECK(looks > 0);
    CHECK(looks <= most);
}

/* Two superslabs that are filled in part tell as much as all do. */
static void used_here_and_there(void) { freed_runs(RESIDENCY_SOME, 2 * (RUNS / 8 + 4)); }
static void never_touched(void) { freed_runs(RESIDENCY_NONE, 8 * (RUNS / 8 + 4)); }

static void kept_runs(void) {
    start();
    answer = RESIDENCY_SOME;
    for (unsigned i = 0; i < RUNS; i++)
        (void)take();
    CHECK(looks > 0);
    CHECK(looks <= 2 * (RUNS / 8 + 4));
}

int main(void) {
    in_child(used_here_and_there);
    in_child(never_touched);
    in_child(kept_runs);
    return CHECK_PASS;
}
