/* SPDX-License-Identifier: MIT
 *
 * The end of a thread: its magazines, its remote table and its slabs are handed over, its id serves the next thread,
 * and what it is asked for afterwards comes from the pool.
 */
#include "heap_places.h"

#include <pthread.h>

enum { CLS = 2, KEPT = 300, EMPTIED = 50, THREADS = 20 };

static void *kept[KEPT], *of_main, *late;
static heap_t *main_heap, *worker_heap;
static pthread_key_t late_key;

static void *lives(void *unused) {
    (void)unused;
    void *gone[KEPT];
    worker_heap = heap_current();
    CHECK(worker_heap != main_heap);
    for (unsigned i = 0; i < KEPT; i++)
        gone[i] = magazine_alloc(worker_heap, EMPTIED);
    for (unsigned i = 0; i < KEPT; i++)
        release(gone[i]);
    for (unsigned i = 0; i < KEPT; i++)
        kept[i] = magazine_alloc(worker_heap, CLS);
    for (unsigned i = 0; i < KEPT; i += 2) {
        release(kept[i]);
        kept[i] = NULL;
    }
    release(of_main);
    CHECK(places_of(CLS).in_remote_tables == 1 && bin_count(worker_heap, CLS) > 0);
    CHECK_EQ(heap_live_count(), 2);
    return NULL;
}

static void handed_over(void) {
    CHECK_EQ(atomic_load(&worker_heap->life), HEAP_UNUSED);
    CHECK_EQ(heap_live_count(), 1);
    CHECK_EQ(atomic_load(&worker_heap->slot_count), 0);
    for (unsigned cls = 0; cls < HK_MAGAZINE_COUNT; cls++)
        CHECK_EQ(heap_magazine_count(worker_heap, cls), 0);
    CHECK_EQ(places_of(EMPTIED).total, 0); /* empty slabs are closed, not kept */
    places_t p = places_of(CLS);
    CHECK_EQ(p.in_remote_tables, 0);
    CHECK_EQ(p.in_messages, 1);
    CHECK_EQ(live_blocks(CLS), KEPT / 2);
    for (unsigned i = 1; i < KEPT; i += 2)
        CHECK_EQ(map_lookup(kept[i]), HK_OWNER_SHARED << 8 | CLS);
    all_is_well();
}

static void *frees_one(void *block) {
    CHECK(heap_current() == worker_heap); /* the id is used again */
    release(block);
    return NULL;
}

/* A block for a thread that is over: it has no heap, and none is started for it. */
static void allocates_late(void *unused) {
    (void)unused;
    CHECK(pthread_setspecific(late_key, &late_key) == 0);
    if (heap_current() != NULL)
        return;
    void *block = heap_malloc_slow(100);
    CHECK(block != NULL);
    CHECK_EQ(map_lookup(block) >> 8, HK_OWNER_SHARED);
    release(block);
    void *big = heap_malloc_slow(HK_MIB);
    CHECK(big != NULL);
    release(big);
    late = heap_malloc_slow(100);
}

static void *sets_late_key(void *unused) {
    (void)unused;
    CHECK(heap_current() != NULL);
    CHECK(pthread_setspecific(late_key, &late_key) == 0);
    return NULL;
}

/* Without a rest: see heap_rest.c. */
static void run(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    heap_retire_parked(UINT64_MAX);
}

int main(void) {
    main_heap = start_heap();
    of_main = magazine_alloc(main_heap, CLS);
    void *stays = magazine_alloc(main_heap, CLS);
    run(lives, NULL);
    CHECK_EQ(map_lookup(stays), main_heap->front.tag | CLS);
    release(stays);
    handed_over();
    uint32_t limit = heap_limit();
    for (unsigned i = 1; i < 2 * THREADS; i += 2) {
        run(frees_one, kept[i]);
        kept[i] = NULL;
    }
    CHECK_EQ(heap_limit(), limit);
    CHECK_EQ(live_blocks(CLS), KEPT / 2 - THREADS);
    for (unsigned i = 1; i < KEPT; i += 2)
        if (kept[i] != NULL)
            release(kept[i]);
    CHECK_EQ(live_blocks(CLS), 0);
    if (!HK_TSAN) { /* for which a thread ends before its destructors */
        CHECK(pthread_key_create(&late_key, allocates_late) == 0);
        run(sets_late_key, NULL);
        CHECK(late != NULL);
        release(late);
    }
    all_is_well();
    return CHECK_PASS;
}
