/* SPDX-License-Identifier: MIT
 *
 * The slot table under fire: slabs and runs are published and retired all the time by threads that allocate mid, large
 * and huge blocks, while other threads free blocks they did not make and ask about addresses that may be retired under
 * their eyes. Lookups need no lock, never crash, and never give a wrong answer about a block that is live.
 */
#include "testing.h"

#include <stdatomic.h>

enum { MAKERS = 2, TAKERS = 2, BOXES = 64, MILLISECONDS = 2500 };

static _Atomic(unsigned char *) boxes[BOXES];
static _Atomic uintptr_t stale[BOXES]; /* addresses that were blocks once */
static _Atomic bool stop;

static size_t pick_size(uint64_t *random) {
    switch (test_random_below(random, 16)) {
    case 0:
        return 1100 * TEST_MIB + test_random_below(random, 1 << 20);
    case 1:
    case 2:
    case 3:
        return 300000 + test_random_below(random, 4 << 20);
    default:
        return 2000 + test_random_below(random, 200000);
    }
}

static void *make(void *argument) {
    uint64_t random = (uintptr_t)argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        size_t size = pick_size(&random);
        unsigned char *p = (unsigned char *)hak_malloc(size);
        CHECK(p != NULL);
        size_t usable = hak_malloc_usable_size(p);
        CHECK_SAY(usable >= size, "%zu of %zu bytes", usable, size);
        CHECK_SAY(hak_owns(p), "%zu bytes", size);
        CHECK_SAY(hak_owns(p + size / 2), "%zu bytes at %p", size, (void *)p);
        p[0] = p[size - 1] = 1;
        size_t box = test_random_below(&random, BOXES);
        atomic_store_explicit(&stale[box], (uintptr_t)p, memory_order_relaxed);
        unsigned char *old = atomic_exchange(&boxes[box], p);
        if (old != NULL)
            hak_free(old);
    }
    return NULL;
}

static void *take(void *argument) {
    uint64_t random = (uintptr_t)argument;
    unsigned owned = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        size_t box = test_random_below(&random, BOXES);
        uintptr_t address = atomic_load_explicit(&stale[box], memory_order_relaxed);
        owned += hak_owns((void *)(address + test_random_below(&random, 1 << 22)));
        unsigned char *p = atomic_exchange(&boxes[box], NULL);
        if (p == NULL)
            continue;
        CHECK(hak_owns(p) && hak_malloc_usable_size(p) >= 2000);
        hak_free(p);
    }
    return (void *)(uintptr_t)(owned == 12345);
}

int main(void) {
    test_alarm(90);
    pthread_t threads[MAKERS + TAKERS];
    for (unsigned i = 0; i < MAKERS + TAKERS; i++)
        threads[i] = test_thread(i < MAKERS ? make : take, (void *)(uintptr_t)(i + 1));
    test_sleep_us(MILLISECONDS * 1000);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < MAKERS + TAKERS; i++)
        test_join(threads[i]);
    for (unsigned i = 0; i < BOXES; i++)
        if (boxes[i] != NULL)
            hak_free(boxes[i]);
    CHECK_HEAP();
    return TEST_PASS;
}
