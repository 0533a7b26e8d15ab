/* SPDX-License-Identifier: MIT
 *
 * After fork, the child has one thread: the heaps of the others are orphans, which refills adopt one by one, with their
 * magazines, remote tables and slabs. The parent goes on as before.
 */
#include "heap_places.h"

#include <pthread.h>

enum { CLS = 2, WORKERS = 3, BLOCKS = 200 };

static heap_t *heaps[WORKERS], *main_heap;
static void *blocks[WORKERS][BLOCKS], *of_main[WORKERS];
static pthread_barrier_t barrier;

static void *works(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    heaps[me] = heap_current();
    release(of_main[me]); /* first: on a busy machine the main thread sleeps for so long that its slab is adopted */
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[me][i] = magazine_alloc(heaps[me], CLS);
    release(blocks[me][0]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 1; i < BLOCKS; i++)
        release(blocks[me][i]);
    return NULL;
}

static unsigned orphans(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < WORKERS; i++)
        count += atomic_load(&heaps[i]->life) == HEAP_ORPHAN;
    return count;
}

static void in_the_child(void) {
    CHECK(heap_current() == main_heap);
    CHECK_EQ(atomic_load(&main_heap->life), HEAP_LIVE);
    CHECK_EQ(orphans(), WORKERS);
    all_is_well();
    size_t live = live_blocks(CLS);
    CHECK_EQ(live, WORKERS * (BLOCKS - 1));
    CHECK_EQ(places_of(CLS).in_remote_tables, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        CHECK(magazine_alloc(main_heap, 40 + i) != NULL);
        CHECK_EQ(orphans(), WORKERS - 1 - i);
        CHECK_EQ(live_blocks(CLS), live);
        all_is_well();
    }
    CHECK_EQ(places_of(CLS).in_remote_tables, 0);
    CHECK_EQ(heap_live_count(), 1);
    for (unsigned w = 0; w < WORKERS; w++)
        for (unsigned i = 1; i < BLOCKS; i++)
            release(blocks[w][i]);
    CHECK_EQ(live_blocks(CLS), 0);
    CHECK(heap_trim_all() < HK_GIB);
    all_is_well();
    heap_adopt_orphan(); /* there is none */
}

int main(void) {
    pthread_t threads[WORKERS];
    main_heap = start_heap();
    CHECK(pthread_barrier_init(&barrier, NULL, WORKERS + 1) == 0);
    for (uintptr_t i = 0; i < WORKERS; i++) {
        of_main[i] = magazine_alloc(main_heap, CLS);
        CHECK(pthread_create(&threads[i], NULL, works, (void *)i) == 0);
    }
    pthread_barrier_wait(&barrier);
    in_child(in_the_child);
    CHECK_EQ(orphans(), 0);
    CHECK_EQ(heap_live_count(), 1 + WORKERS);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(live_blocks(CLS), 0);
    all_is_well();
    return CHECK_PASS;
}
