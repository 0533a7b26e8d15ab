/* SPDX-License-Identifier: MIT
 *
 * Another heap's blocks in a magazine: a thread that frees so many as a third of what it allocates keeps them, hands
 * them out again, and what it flushes goes to the owner; double frees of such blocks are found, by whoever frees.
 */
#include "heap_places.h"

#include "core/panic.h"

#include <pthread.h>
#include <semaphore.h>

enum { CLS = HK_MAP_CLASS_APART, TINY = CLS - 1, BLOCKS = 3000, CROWD_MAX = 5000 };

static void *blocks[BLOCKS], *tiny[2], *more[2];
static heap_t *owner;
static sem_t here, may_go;

static uint64_t kept(const heap_t *h) { return h->class_stats[CLS].kept; }

/* A heap that is idle for some time between two looks at it loses its slabs to who looks. */
static void owner_is_awake(void) {
    heap_lock(owner);
    heap_unlock(owner);
}

static void alloc_and_free(unsigned count) {
    owner_is_awake();
    for (unsigned i = 0; i < count; i++)
        release(magazine_alloc(heap_current(), CLS));
}

static void not_yet(heap_t *h) {
    alloc_and_free(1);
    heap_tick(h);
    release(blocks[0]);
    CHECK_EQ(places_of(CLS).in_remote_tables, 1);
    heap_tick(h); /* it allocated none */
    alloc_and_free(4);
    release(blocks[1]);
    CHECK_EQ(kept(h), 0);
    heap_tick(h); /* ... and now one is less than a third of what it allocated */
    alloc_and_free(3);
    release(blocks[2]);
    CHECK_EQ(kept(h), 0);
    CHECK_EQ(h->class_stats[CLS].freed_remote, 3);
    heap_tick(h); /* a third */
}

static void handed_out_again(heap_t *h) {
    unsigned before = bin_count(h, CLS);
    release(blocks[3]);
    CHECK_EQ(bin_count(h, CLS), before + 1);
    CHECK_EQ(kept(h), 1);
    CHECK_EQ(h->class_stats[CLS].freed_remote, 4);
    CHECK(magazine_alloc(h, CLS) == blocks[3]);
    CHECK_EQ(live_blocks(CLS), BLOCKS - 1);
    alloc_and_free(3);
    heap_tick(h); /* one of four */
    release(blocks[3]);
    CHECK_EQ(kept(h), 1);
    CHECK_EQ(places_of(CLS).in_remote_tables + places_of(CLS).in_messages, 4);
    alloc_and_free(1);
    heap_tick(h);
}

static void not_of_shared_words(heap_t *h) {
    for (unsigned i = 0; i < 2; i++) {
        owner_is_awake();
        release(magazine_alloc(h, TINY));
        unsigned before = bin_count(h, TINY);
        release(tiny[i]);
        CHECK_EQ(bin_count(h, TINY), before);
        CHECK_EQ(places_of(TINY).in_remote_tables, 1);
        heap_tick(h);
    }
}

static void freed_twice(void) {
    CHECK_EQ(hk_misuse_count(), 0);
    release(blocks[3]);
    CHECK_EQ(hk_misuse_count(), 1);
}

/* More than a magazine holds. */
static void flushed(heap_t *h) {
    for (unsigned i = 4; i < BLOCKS - 1; i++)
        release(blocks[i]);
    places_t p = places_of(CLS);
    CHECK(p.in_magazines < BLOCKS / 2 && p.in_remote_tables + p.in_messages > BLOCKS / 2);
    CHECK_EQ(live_blocks(CLS), 3);
    CHECK_EQ(kept(h), BLOCKS - 4); /* the first ones went home */
}

static void *is_one_more(void *unused) {
    CHECK(heap_current() != NULL);
    sem_post(&here);
    CHECK(sem_wait(&may_go) == 0);
    return unused;
}

static uint64_t is_kept(heap_t *h, void *block) {
    for (unsigned ticks = 0; ticks < 2; ticks++) {
        alloc_and_free(4);
        heap_tick(h);
    }
    uint64_t before = kept(h);
    release(block);
    return kept(h) - before;
}

/* With more threads than the processors serve at a time: the owner may wait for one, and what goes home with it. */
static void in_a_crowd(heap_t *h) {
    pthread_t threads[CROWD_MAX];
    unsigned started = 0;
    CHECK_EQ(is_kept(h, more[0]), 0);
    for (; !heap_is_oversubscribed(); started++) {
        CHECK(started < CROWD_MAX && pthread_create(&threads[started], NULL, is_one_more, NULL) == 0);
        CHECK(sem_wait(&here) == 0);
    }
    CHECK_EQ(is_kept(h, more[1]), 1);
    for (unsigned i = 0; i < started; i++)
        sem_post(&may_go);
    for (unsigned i = 0; i < started; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *works(void *unused) {
    (void)unused;
    heap_t *h = heap_current();
    CHECK(h != NULL && h != owner);
    not_yet(h);
    handed_out_again(h);
    freed_twice();
    flushed(h);
    not_of_shared_words(h);
    in_a_crowd(h);
    all_is_well();
    return NULL;
}

int main(void) {
    CHECK(setenv("HAKMEM_ON_ERROR", "report", 1) == 0);
    CHECK(sem_init(&here, 0, 0) == 0 && sem_init(&may_go, 0, 0) == 0);
    owner = start_heap();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = magazine_alloc(owner, CLS);
    for (unsigned i = 0; i < 2; i++)
        tiny[i] = magazine_alloc(owner, TINY);
    for (unsigned i = 0; i < 2; i++)
        more[i] = magazine_alloc(owner, CLS);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, works, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    places_t p = places_of(CLS);
    CHECK_EQ(p.in_remote_tables, 0);
    CHECK_EQ(live_blocks(CLS), 1);
    heap_lock(owner);
    heap_drain_locked(owner);
    heap_unlock(owner);
    CHECK_EQ(places_of(CLS).in_messages, 0);
    /* The owner's own double free of what came home. */
    release(blocks[5]);
    CHECK_EQ(hk_misuse_count(), 2);
    release(blocks[BLOCKS - 1]);
    CHECK_EQ(live_blocks(CLS), 0);
    all_is_well();
    return CHECK_PASS;
}
