/* SPDX-License-Identifier: MIT
 *
 * Heaps of the program's own come into being, each with a record that was never used, while others look at all heaps:
 * whoever sees the number of heaps finds each of them prepared. ThreadSanitizer is the judge.
 */
#include "testing.h"

#include <stdatomic.h>

enum { ROUNDS = 40, HEAPS = 50, LOOKERS = 2 };

static atomic_bool stop;

static void *look(void *unused) {
    (void)unused;
    while (!atomic_load_explicit(&stop, memory_order_relaxed))
        CHECK_EQ(hak_check(), 0);
    return NULL;
}

int main(void) {
    static hak_heap_t *heaps[ROUNDS * HEAPS];
    pthread_t threads[LOOKERS];
    test_alarm(120);
    for (unsigned i = 0; i < LOOKERS; i++)
        threads[i] = test_thread(look, NULL);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < HEAPS; i++)
            CHECK((heaps[round * HEAPS + i] = hak_heap_new(NULL)) != NULL);
        test_sleep_us(1000);
    }
    atomic_store_explicit(&stop, true, memory_order_relaxed);
    for (unsigned i = 0; i < LOOKERS; i++)
        test_join(threads[i]);
    for (unsigned i = 0; i < ROUNDS * HEAPS; i++)
        hak_heap_destroy(heaps[i]);
    CHECK_EQ(hak_check(), 0);
    return TEST_PASS;
}
