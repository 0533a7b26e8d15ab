/* SPDX-License-Identifier: MIT
 *
 * After fork, the child has one thread: the heaps of the others are orphans, which refills adopt one by one, with their
 * magazines, remote tables and slabs. The parent goes on as before.
 */
#include "front/front.h"
#include "heap_places.h"

#include <pthread.h>

enum { CLS = 2, WORKERS = 3, BLOCKS = 200, TORN = 30, TORN_SIZE = 31 * 16 };

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
    release(magazine_alloc(heaps[me], TORN));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 1; i < BLOCKS; i++)
        release(blocks[me][i]);
    return NULL;
}

static heap_t *ended;

static void *ends(void *unused) {
    ended = heap_current();
    release(magazine_alloc(ended, CLS));
    return unused;
}

/* After the look at the records of heaps that have ended, and before the fork, a thread takes the lock of one. */
static void take_ended(void) {
    if (ended != NULL)
        atomic_store(&ended->lock.word, 1);
}

static void give_ended_back(void) {
    if (ended != NULL)
        atomic_store(&ended->lock.word, 0);
}

static void has_no_lock_of_nobodys(void) {
    CHECK_EQ(atomic_load(&ended->life), HEAP_UNUSED);
    CHECK_EQ(atomic_load(&ended->lock.word), 0);
    CHECK(!ended->is_held_by_fork && !main_heap->is_held_by_fork);
    all_is_well();
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
        CHECK(heap_class_alloc(main_heap, 40 + i, HK_ALIGNMENT) != NULL);
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
    CHECK(hk_trim_all() < HK_GIB);
    all_is_well();
    heap_adopt_orphan(); /* there is none */
}

/* Takes one of the heaps that the others left. */
static void *uses(void *unused) {
    void *taken[BLOCKS];
    CHECK(front_malloc(1) != NULL); /* from now on the thread takes the fast path */
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK((taken[i] = front_malloc(TORN_SIZE)) != NULL);
        CHECK_EQ(map_lookup(taken[i]) & HK_MAP_CLASS_MAX, TORN);
        for (unsigned k = 0; k < i; k++)
            CHECK(taken[k] != taken[i]);
    }
    pthread_barrier_wait(&barrier);
    return unused;
}

/* The others were between two steps of malloc or free. Their heaps serve threads again; a block or two may be lost. */
static void between_two_steps(void) {
    magazine_t *popping = &heaps[0]->front.magazines[TORN], *growing = &heaps[1]->front.magazines[TORN];
    magazine_t *pushing = &heaps[2]->front.magazines[TORN];
    CHECK(popping->top != 0 && growing->top != 0 && pushing->top != 0);
    popping->below = heaps[0]->class_stats[TORN].array - 1; /* the last one, which is on top yet */
    growing->below = NULL;                                  /* its first array is about to come in */
    heaps[1]->magazines_in_use[TORN / 64] &= ~(UINT64_C(1) << (TORN % 64));
    pushing->below[1] = pushing->top;
    for (unsigned i = 0; i < WORKERS; i++)
        heap_adopt_orphan();
    CHECK(growing->last == NULL && popping->top == 0 &&
          (heaps[2]->magazines_in_use[TORN / 64] >> (TORN % 64) & 1) != 0);
    pthread_t threads[WORKERS];
    CHECK(pthread_barrier_init(&barrier, NULL, WORKERS) == 0);
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, uses, NULL) == 0);
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(heap_limit(), HK_OWNER_FIRST + 1 + WORKERS);
    all_is_well();
}

int main(void) {
    pthread_t threads[WORKERS], other;
    CHECK(pthread_atfork(take_ended, give_ended_back, NULL) == 0); /* before ours, so that it runs after them */
    main_heap = start_heap();
    CHECK(pthread_barrier_init(&barrier, NULL, WORKERS + 1) == 0);
    for (uintptr_t i = 0; i < WORKERS; i++) {
        of_main[i] = magazine_alloc(main_heap, CLS);
        CHECK(pthread_create(&threads[i], NULL, works, (void *)i) == 0);
    }
    pthread_barrier_wait(&barrier);
    in_child(in_the_child);
    if (!HK_TSAN) /* which starts no threads after such a fork */
        in_child(between_two_steps);
    CHECK(pthread_create(&other, NULL, ends, NULL) == 0 && pthread_join(other, NULL) == 0);
    in_child(has_no_lock_of_nobodys);
    ended = NULL;
    CHECK_EQ(orphans(), 0);
    CHECK_EQ(heap_live_count(), 1 + WORKERS);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(live_blocks(CLS), 0);
    all_is_well();
    return CHECK_PASS;
}
