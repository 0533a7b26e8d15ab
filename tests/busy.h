/* SPDX-License-Identifier: MIT
 *
 * busy.h: threads that allocate and free without pause, each others' blocks too, until they are told to stop.
 * With BUSY_HAK_NAMES they call hak_malloc and hak_free, which are hakmem's in any build.
 */
#ifndef HAKMEM_TEST_BUSY_H
#define HAKMEM_TEST_BUSY_H

#include "testing.h"

#include <stdatomic.h>

#ifdef BUSY_HAK_NAMES
#define BUSY_MALLOC hak_malloc
#define BUSY_FREE   hak_free
#else
#define BUSY_MALLOC malloc
#define BUSY_FREE   free
#endif

enum { BUSY_SHARED = 512, BUSY_OWN = 256 };

typedef struct busy_block {
    size_t size;
    uint64_t seed;
} busy_block_t;

static _Atomic(busy_block_t *) busy_shared[BUSY_SHARED];
static _Atomic bool busy_stop;

/* A block that knows its size and seed; the rest of it is filled with that pattern. */
static inline busy_block_t *busy_make(uint64_t *random, size_t max) {
    size_t size = sizeof(busy_block_t) + test_random_log_size(random, max);
    busy_block_t *b = (busy_block_t *)BUSY_MALLOC(size);
    CHECK(b != NULL);
    b->size = size;
    b->seed = test_random(random);
    test_fill(b + 1, size - sizeof *b, b->seed);
    return b;
}

static inline void busy_drop(busy_block_t *b) {
    if (b == NULL)
        return;
    CHECK_SAY(test_holds(b + 1, b->size - sizeof *b, b->seed), "contents of block %p changed", (void *)b);
    BUSY_FREE(b);
}

/* One step of work on the shared blocks: puts a fresh block where another was and frees that one. */
static inline void busy_trade(uint64_t *random, size_t max) {
    busy_block_t *mine = busy_make(random, max);
    busy_drop(atomic_exchange(&busy_shared[test_random_below(random, BUSY_SHARED)], mine));
}

static inline void *busy_run(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    busy_block_t *own[BUSY_OWN] = {NULL};
    while (!atomic_load_explicit(&busy_stop, memory_order_relaxed)) {
        busy_trade(&random, random % 100 == 0 ? 300000 : 2000);
        size_t slot = test_random_below(&random, BUSY_OWN);
        busy_drop(own[slot]);
        own[slot] = busy_make(&random, 4000);
    }
    for (unsigned i = 0; i < BUSY_OWN; i++)
        busy_drop(own[i]);
    return NULL;
}

static inline void busy_clear(void) {
    for (unsigned i = 0; i < BUSY_SHARED; i++)
        busy_drop(atomic_exchange(&busy_shared[i], NULL));
}

static inline void busy_start(pthread_t *threads, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        threads[i] = test_thread(busy_run, (void *)(uintptr_t)(i + 1));
}

static inline void busy_end(const pthread_t *threads, unsigned count) {
    atomic_store(&busy_stop, true);
    for (unsigned i = 0; i < count; i++)
        test_join(threads[i]);
    busy_clear();
}

#endif
