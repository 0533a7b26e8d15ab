/* SPDX-License-Identifier: MIT
 *
 * Between any two instructions of what takes runs out of a cache, each of its slots is in the cache, in the pool, or
 * held by somebody, whom who finds no memory waits for.
 */
#include "large/large.h"
#include "rooms.h"
#include "steps.h"
#include "superslab/superslab.h"

enum { RUNS = LARGE_CACHE_ENTRIES };

static large_cache_t cache;
static size_t all;
static unsigned long steps, held;

static size_t seen_slots(void) { return (hk_read(cache.bytes) >> HK_SLOT_SHIFT) + pool_count(&hk_pool.free); }

static void step(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    steps++;
    if (atomic_load(&hk_slots_holders) > 0)
        held++;
    else
        CHECK(seen_slots() >= all);
}

static void *take(void) {
    void *block = large_alloc(&cache, HK_MID_MAX + 1, 1, NULL);
    CHECK(block != NULL);
    return block;
}

static void fill_cache(void) {
    void *blocks[RUNS];
    for (unsigned i = 0; i < RUNS; i++)
        blocks[i] = take();
    for (unsigned i = 0; i < RUNS; i++)
        CHECK(large_free(&cache, blocks[i]));
    CHECK_EQ(cache.count, RUNS);
    all = seen_slots();
    steps = held = 0;
}

static void all_are_back(void) {
    CHECK(steps > 100 && held > 10);
    CHECK_EQ(atomic_load(&hk_slots_holders), 0);
    CHECK(seen_slots() >= all);
    CHECK_EQ(superslab_check(), 0);
}

static void trimmed(void) {
    fill_cache();
    steps_begin();
    (void)large_cache_trim(&cache, 0, 0);
    steps_end();
    CHECK_EQ(cache.count, 0);
    all_are_back();
}

static void evicted(void) {
    void *one = take();
    fill_cache();
    steps_begin();
    (void)large_free(&cache, one);
    steps_end();
    CHECK_EQ(cache.count, RUNS);
    all_are_back();
}

/* Nobody lets go: the wait has an end. */
static void waited_for(void) {
    CHECK(!superslab_wait_for_held());
    superslab_hold();
    CHECK(superslab_wait_for_held());
    superslab_let_go();
    CHECK(!superslab_wait_for_held());
}

int main(void) {
    steps_init(step);
    start_slab();
    large_cache_init(&cache);
    slots_t kept = slots_alloc(1, 1, SLOTS_SPARSE); /* its superslab stays */
    CHECK(kept.first != 0);
    waited_for();
    trimmed();
    evicted();
    return CHECK_PASS;
}
