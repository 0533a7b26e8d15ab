/* SPDX-License-Identifier: MIT
 *
 * Between any two instructions of a purge, each slot is in the pool, or held by somebody, whom who finds no memory
 * waits for.
 */
#include "rooms.h"
#include "steps.h"
#include "superslab/superslab.h"

enum { DIRTY_SLOTS = 16 };

static size_t all;
static unsigned long steps, held;

static void step(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    steps++;
    if (atomic_load(&hk_slots_holders) > 0)
        held++;
    else if (atomic_load(&hk_superslab_lock.word) == 0)
        CHECK(pool_count(&hk_pool.free) >= all);
}

static void purged(void) {
    slots_t got = slots_alloc(DIRTY_SLOTS, 1, SLOTS_SPARSE);
    CHECK(got.first != 0);
    slots_free_for_reuse(got.first, DIRTY_SLOTS);
    all = pool_count(&hk_pool.free);
    steps_begin();
    size_t bytes = superslab_purge(SIZE_MAX);
    steps_end();
    CHECK_EQ(bytes, DIRTY_SLOTS * HK_SLOT_SIZE);
    CHECK(steps > 100 && held > 10);
    CHECK(!superslab_wait_for_held());
    CHECK(pool_count(&hk_pool.free) >= all);
    CHECK_EQ(superslab_check(), 0);
}

/* Nobody lets go: the wait has an end. */
static void waited_for(void) {
    CHECK(!superslab_wait_for_held());
    atomic_fetch_add(&hk_slots_holders, 1);
    CHECK(superslab_wait_for_held());
    atomic_fetch_sub(&hk_slots_holders, 1);
    CHECK(!superslab_wait_for_held());
}

int main(void) {
    steps_init(step);
    start_map();
    slots_t kept = slots_alloc(1, 1, SLOTS_SPARSE); /* its superslab stays */
    CHECK(kept.first != 0);
    waited_for();
    purged();
    return CHECK_PASS;
}
