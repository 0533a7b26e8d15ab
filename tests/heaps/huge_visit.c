/* SPDX-License-Identifier: MIT
 *
 * Huge blocks of a heap come and go while others visit it: a visitor reads nothing of a block that is gone.
 */
#include "testing.h"

#include <stdatomic.h>

enum { SIZE = (1 << 30) + 4096, THREADS = 2 };

static hak_heap_t *heap;
static atomic_bool over;

static void *make_and_free(void *unused) {
    while (!atomic_load_explicit(&over, memory_order_relaxed))
        hak_free(hak_heap_malloc(heap, SIZE));
    return unused;
}

static bool see(void *block, size_t size, void *seen) {
    CHECK(block != NULL && (size == 0 || size >= SIZE)); /* 0: gone, at level 3 */
    ++*(unsigned long *)seen;
    return true;
}

int main(void) {
    test_alarm(60);
    heap = hak_heap_new(NULL);
    CHECK(heap != NULL);
    pthread_t running[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        running[i] = test_thread(make_and_free, NULL);
    unsigned long seen = 0;
    for (uint64_t end = test_now_ns() + 2 * UINT64_C(1000000000); test_now_ns() < end || seen == 0;)
        CHECK_EQ(hak_heap_visit(heap, see, &seen), 0);
    atomic_store(&over, true);
    for (unsigned i = 0; i < THREADS; i++)
        test_join(running[i]);
    hak_heap_destroy(heap);
    printf("%lu blocks seen\n", seen);
    return 0;
}
