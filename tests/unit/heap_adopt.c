/* SPDX-License-Identifier: MIT
 *
 * Slabs change hands: from a thread that ended, on a refill and on a free; from a thread that sleeps. Nothing is lost, and
 * their former owner's magazines still find their way back.
 */
#include "core/counters.h"
#include "heap_places.h"

#include <pthread.h>

enum { CLS = 20, BLOCKS = 500, OTHER = 30 };

static void *blocks[BLOCKS];
static heap_t *worker_heap;
static pthread_barrier_t barrier;

static size_t adopted(void) { return atomic_load(&hk_counters.slabs_adopted); }

static uint32_t owner_of(const void *block) { return atomic_load(&slab_of(block, CLS)->owner); }

static void *allocates(void *unused) {
    (void)unused;
    worker_heap = heap_current();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = magazine_alloc(worker_heap, CLS);
    return NULL;
}

static void run_and_end(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    heap_retire_resting(UINT64_MAX);
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK_EQ(owner_of(blocks[i]), HK_OWNER_POOL);
    CHECK(live_blocks(CLS) >= BLOCKS);
    all_is_well();
}

static void on_refill(void) {
    heap_t *h = start_heap();
    run_and_end();
    size_t before = adopted(), total = places_of(CLS).total;
    CHECK(places_of(CLS).in_free_bits > 0);
    void *block = magazine_alloc(h, CLS);
    CHECK_EQ(owner_of(block), h->front.id);
    CHECK_EQ(adopted(), before + 1);
    CHECK_EQ(places_of(CLS).total, total); /* no new slab */
    CHECK_EQ(map_lookup(block), h->front.tag | CLS);
    CHECK_EQ(live_blocks(CLS), BLOCKS + 1);
    all_is_well();
}

/* A thread that only frees leaves the slabs to others. */
static void not_on_every_free(void) {
    heap_t *h = start_heap();
    run_and_end();
    size_t before = adopted();
    for (unsigned i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    CHECK_EQ(adopted(), before);
    CHECK_EQ(h->class_stats[CLS].freed_remote, BLOCKS);
    CHECK_EQ(live_blocks(CLS), 0);
    all_is_well();
}

static void on_free(void) {
    heap_t *h = start_heap();
    void *own = magazine_alloc(h, CLS);
    run_and_end();
    release(own);
    size_t before = adopted(), had = bin_count(h, CLS);
    release(blocks[0]);
    CHECK_EQ(adopted(), before + 1);
    CHECK_EQ(owner_of(blocks[0]), h->front.id);
    CHECK_EQ(bin_count(h, CLS), had + 1);
    CHECK_EQ(h->class_stats[CLS].freed_remote, 0);
    /* The others of that slab are own blocks now. */
    for (unsigned i = 1; i < BLOCKS; i++)
        release(blocks[i]);
    CHECK(adopted() - before <= 1 + BLOCKS * hk_class_info[CLS].block_size / HK_SLOT_SIZE + 1);
    CHECK_EQ(live_blocks(CLS), 0);
    CHECK(!heap_adopt_freed_slab(h, slab_of(blocks[0], CLS))); /* it is the pool's no longer */
    all_is_well();
}

static void *sleeps(void *unused) {
    (void)allocates(unused);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    /* Awake again: the magazine holds blocks of slabs that went away meanwhile. */
    for (unsigned i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    magazine_drop_all(worker_heap);
    return NULL;
}

static void from_a_sleeper(void) {
    pthread_t thread;
    heap_t *h = start_heap();
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, sleeps, NULL) == 0);
    pthread_barrier_wait(&barrier);
    size_t before = adopted();
    (void)magazine_alloc(h, OTHER); /* sees the heap for the first time */
    CHECK_EQ(adopted(), before);
    usleep(60000);
    void *block = magazine_alloc(h, CLS);
    CHECK_EQ(adopted(), before + 1);
    CHECK_EQ(owner_of(block), h->front.id);
    CHECK_EQ(live_blocks(CLS), BLOCKS + 1);
    all_is_well();
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(live_blocks(CLS), 1);
    release(block);
    heap_lock(h);
    heap_drain_locked(h);
    heap_unlock(h);
    CHECK_EQ(live_blocks(CLS), 0);
    CHECK_EQ(places_of(CLS).in_messages + places_of(CLS).in_remote_bits, 0);
    all_is_well();
}

/* A heap that went behind its magazines just now is left alone. */
static void not_from_the_busy(void) {
    pthread_t thread;
    heap_t *h = start_heap();
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, sleeps, NULL) == 0);
    pthread_barrier_wait(&barrier);
    size_t before = adopted();
    for (unsigned i = 0; i < 10; i++) {
        heap_lock(worker_heap);
        heap_unlock(worker_heap);
        void *block = magazine_alloc(h, CLS + 1 + i);
        CHECK(block != NULL);
    }
    CHECK_EQ(adopted(), before);
    CHECK_EQ(owner_of(blocks[0]), worker_heap->front.id);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    all_is_well();
}

int main(void) {
    in_child(on_refill);
    in_child(on_free);
    in_child(not_on_every_free);
    in_child(from_a_sleeper);
    in_child(not_from_the_busy);
    return CHECK_PASS;
}
