/* SPDX-License-Identifier: MIT
 *
 * Threads that fill buffers of changing lengths and hand them to threads that free them: the slots of a buffer serve
 * the thread that took it, and no length has memory of its own.
 */
#include "testing.h"

#include <sched.h>
#include <stdatomic.h>

enum { PAIRS = 2, BUFFERS = 20000, ON_THEIR_WAY = 8, LEAST = 18000, MOST = 250000 };

typedef struct pair {
    _Atomic unsigned made, used; /* counts; a buffer's place is its number modulo ON_THEIR_WAY */
    char *buffers[ON_THEIR_WAY];
} pair_t;

static pair_t pairs[PAIRS];

static void *make(void *argument) {
    pair_t *pair = argument;
    uint64_t random = (uintptr_t)pair | 1;
    for (unsigned i = 0; i < BUFFERS; i++) {
        size_t size = (size_t)LEAST << test_random_below(&random, 4);
        size += test_random_below(&random, size < MOST / 2 ? size : MOST - size);
        char *buffer = test_opaque(malloc(size));
        CHECK(buffer != NULL);
        memset(buffer, (int)i, size);
        while (i - atomic_load(&pair->used) >= ON_THEIR_WAY)
            sched_yield();
        pair->buffers[i % ON_THEIR_WAY] = buffer;
        atomic_store(&pair->made, i + 1);
    }
    return NULL;
}

static void *use(void *argument) {
    pair_t *pair = argument;
    for (unsigned i = 0; i < BUFFERS; i++) {
        while (atomic_load(&pair->made) <= i)
            sched_yield();
        const char *buffer = pair->buffers[i % ON_THEIR_WAY];
        CHECK(buffer[0] == (char)i && buffer[LEAST - 1] == (char)i);
        free(pair->buffers[i % ON_THEIR_WAY]);
        atomic_store(&pair->used, i + 1);
    }
    return NULL;
}

int main(void) {
    test_require_hakmem();
    test_alarm(100);
    pthread_t threads[PAIRS][2];
    for (unsigned i = 0; i < PAIRS; i++) {
        threads[i][0] = test_thread(make, &pairs[i]);
        threads[i][1] = test_thread(use, &pairs[i]);
    }
    for (unsigned i = 0; i < PAIRS; i++) {
        test_join(threads[i][0]);
        test_join(threads[i][1]);
    }
    const size_t peak = (size_t)test_status_kib("VmHWM:") * TEST_KIB, live = (size_t)PAIRS * (ON_THEIR_WAY + 2) * MOST;
    test_say("%zu bytes at most are on their way, %zu were resident\n", live, peak);
    CHECK(peak <= 2 * live + 4 * TEST_MIB);
    return TEST_PASS;
}
