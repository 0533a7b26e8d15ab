/* SPDX-License-Identifier: MIT
 *
 * Posters against a drainer: every block comes back once, and of all posters after a drain exactly one pushes.
 */
#include "rooms.h"
#include "slab_blocks.h"

#include <pthread.h>

enum { OWNER = 5, POSTERS = 2, ROUNDS = 40, BLOCKS = 4096 };

static slab_t *slab;
static pthread_barrier_t barrier;
static _Atomic unsigned pushed, posters_done;

static void *post_share(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    unsigned mine = (unsigned)(uintptr_t)argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        /* Each poster has every second bit of every word, in an order of its own. */
        unsigned start = (unsigned)next_random(&random) % 64;
        for (unsigned i = 0; i < 64 * 4; i++) {
            unsigned word = (start + i * 7) % 64;
            uint64_t bits = (UINT64_C(0x5555) << mine) << (i / 64 * 16);
            bool push;
            CHECK_EQ(slab_post(slab, word, bits, &push), 0);
            if (push)
                CHECK_EQ(atomic_fetch_add(&pushed, 1), 0);
        }
        atomic_fetch_add(&posters_done, 1);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* As the owner does: drains only what was pushed. */
static void drain_all(void) {
    unsigned twice = 0, count = 0;
    for (bool last = false; !last;) {
        last = atomic_load(&posters_done) == POSTERS;
        if (atomic_exchange(&pushed, 0) > 0)
            count += slab_drain(slab, &twice);
        CHECK_EQ(slab_is_empty(slab), count == BLOCKS);
    }
    CHECK_EQ(count, BLOCKS);
    CHECK_EQ(twice, 0);
    CHECK_EQ(slab_check(slab), 0);
}

int main(void) {
    static void *blocks[BLOCKS];
    bool reused;
    start_slab();
    slab = slab_open(0, OWNER, &reused);
    CHECK(slab != NULL);
    pthread_t posters[POSTERS];
    CHECK(pthread_barrier_init(&barrier, NULL, POSTERS + 1) == 0);
    for (uintptr_t i = 0; i < POSTERS; i++)
        CHECK(pthread_create(&posters[i], NULL, post_share, (void *)i) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        CHECK_EQ(take_blocks(slab, blocks + BLOCKS, BLOCKS), BLOCKS);
        atomic_store(&posters_done, 0);
        pthread_barrier_wait(&barrier);
        drain_all();
        pthread_barrier_wait(&barrier);
    }
    for (unsigned i = 0; i < POSTERS; i++)
        CHECK(pthread_join(posters[i], NULL) == 0);
    slab_close(slab);
    return CHECK_PASS;
}
