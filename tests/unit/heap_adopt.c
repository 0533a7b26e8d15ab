/* SPDX-License-Identifier: MIT
 *
 * Slabs change hands: from a thread that ended, on a refill and on a free; from a thread that sleeps. Nothing is lost,
 * and their former owner's magazines still find their way back.
 */
#include "core/counters.h"
#include "heap/messages.h"
#include "heap_places.h"
#include "sys/sys.h"

#include <pthread.h>

enum { CLS = 20, BLOCKS = 500, OTHER = 30, LONG = 100000 };

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
    heap_retire_parked(UINT64_MAX);
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK_EQ(owner_of(blocks[i]), HK_OWNER_SHARED);
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
    CHECK(!heap_adopt_freed_slab(h, slab_of(blocks[0], CLS), CLS)); /* it is the pool's no longer */
    all_is_well();
}

static void *allocates_one(void *block) {
    worker_heap = heap_current();
    *(void **)block = magazine_alloc(worker_heap, CLS);
    return NULL;
}

/* Threads that come and go, each of which leaves this one a block: they do with one slab. Were it adopted with the
 * block that is freed, each would open another. */
static void not_for_a_few_blocks(void) {
    enum { LIVES = 20 }; /* fewer than an eighth of a slab */
    heap_t *h = start_heap();
    release(magazine_alloc(h, CLS)); /* a thread that allocates of the class */
    void *block;
    for (unsigned i = 0; i < LIVES; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, allocates_one, &block) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        release(block);
    }
    CHECK_EQ(owner_of(block), HK_OWNER_SHARED);
    CHECK_EQ(h->class_stats[CLS].slab_count, 1);
    CHECK_EQ(places_of(CLS).total, 2 * slab_of(block, CLS)->block_count);
    CHECK_EQ(live_blocks(CLS), 0);
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
    CHECK_EQ(places_of(CLS).in_messages, 0);
    all_is_well();
}

static void give(void *block) {
    const remote_entry_t word = heap_remote_word(block, CLS);
    CHECK(map_clear_live_shared(map_granule(block)));
    CHECK_EQ(heap_remote_give(&word), 0);
}

/* The pool's slab whose last live block is `last`, and which nobody but the pool has blocks of. */
static slab_t *almost_empty_slab(void **last) {
    slab_t *slab = slab_of(blocks[0], CLS);
    *last = blocks[0];
    for (unsigned i = 1; i < BLOCKS; i++)
        if (slab_of(blocks[i], CLS) == slab)
            give(blocks[i]);
    CHECK_EQ(slab->free_count, slab->block_count - 1);
    return slab;
}

/* The free of the slab's last block waits at the pool, and a second one of it comes to adopt the slab: it is gone
 * after the drain. */
static void not_what_the_drain_closes(void) {
    void *last;
    heap_t *h = start_heap();
    run_and_end();
    slab_t *slab = almost_empty_slab(&last);
    size_t before = adopted(), slots = atomic_load(&heap_shared()->slot_count);
    unsigned index = class_block_index(&hk_classes[CLS], last);
    CHECK(map_clear_live_shared(map_granule(last)));
    CHECK(heap_remote_note(h, slab_base(slab), CLS, index));
    heap_remote_post_all(h);
    CHECK(atomic_load(&heap_shared()->inbox) != NULL);
    CHECK(!heap_adopt_freed_slab(h, slab, CLS));
    CHECK_EQ(adopted(), before);
    CHECK_EQ(atomic_load(&slab->state), SLAB_CLOSED);
    CHECK_EQ(atomic_load(&heap_shared()->slot_count), slots - hk_class_info[CLS].slab_slots);
    CHECK_EQ(atomic_load(&h->slot_count), 0);
    all_is_well();
    /* Another heap's slab is there now. */
    heap_lock(h);
    slab_t *other = slab_open(CLS, h->front.id, true);
    CHECK(other != NULL);
    heap_insert_locked(h, other);
    heap_unlock(h);
    CHECK(!heap_adopt_freed_slab(h, other, CLS));
    all_is_well();
}

static void not_of_another_class(void) {
    heap_t *h = start_heap();
    run_and_end();
    CHECK(!heap_adopt_freed_slab(h, slab_of(blocks[0], CLS), CLS + 1));
    CHECK_EQ(owner_of(blocks[0]), HK_OWNER_SHARED);
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

static void *takes_one_long(void *block) {
    worker_heap = heap_current();
    *(void **)block = heap_take_one(worker_heap, class_of(LONG), &(block_past_t){0});
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* Of long blocks each thread would have a slab with a block or two. */
static void long_ones_from_all(void) {
    pthread_t thread;
    void *theirs;
    heap_t *h = start_heap();
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, takes_one_long, &theirs) == 0);
    pthread_barrier_wait(&barrier);
    size_t before = adopted();
    heap_lock(worker_heap);
    heap_unlock(worker_heap);
    block_past_t past;
    void *block = heap_take_one(h, class_of(LONG), &past);
    CHECK(slab_of(block, class_of(LONG)) == slab_of(theirs, class_of(LONG)) && block != theirs);
    CHECK(adopted() == before + 1 && atomic_load(&slab_of(block, class_of(LONG))->owner) == h->front.id);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    all_is_well();
}

/* What a drain for another heap comes upon is told to who drained. */
static void double_frees_are_told(void) {
    void *last;
    heap_t *h = start_heap();
    run_and_end();
    slab_t *slab = almost_empty_slab(&last);
    void *given = NULL;
    for (unsigned i = 1; i < BLOCKS && given == NULL; i++)
        if (slab_of(blocks[i], CLS) == slab)
            given = blocks[i];
    const remote_entry_t word = heap_remote_word(given, CLS);
    CHECK(message_send_alone(HK_OWNER_SHARED, &word));
    CHECK(heap_adopt_freed_slab(h, slab, CLS));
    CHECK_EQ(h->double_frees.count, 1);
    CHECK(h->double_frees.block == given && heap_shared()->double_frees.count == 0);
}

/* Twice in a row without a slow path in between is not idle yet: IDLE_MS must have passed. */
static void not_at_the_second_look(void) {
    pthread_t thread;
    heap_t *h = start_heap();
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, sleeps, NULL) == 0);
    pthread_barrier_wait(&barrier);
    size_t before = adopted();
    worker_heap->idle_takes = worker_heap->lock_takes;
    worker_heap->idle_since_ms = (uint32_t)sys_now_ms() + 30000; /* what lies ahead is an age of none */
    CHECK(magazine_alloc(h, CLS) != NULL);
    CHECK_EQ(adopted(), before);
    CHECK_EQ(owner_of(blocks[0]), worker_heap->front.id);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
    in_child(on_refill);
    in_child(double_frees_are_told);
    in_child(not_at_the_second_look);
    in_child(on_free);
    in_child(not_for_a_few_blocks);
    in_child(not_on_every_free);
    in_child(from_a_sleeper);
    in_child(not_from_the_busy);
    in_child(long_ones_from_all);
    in_child(not_what_the_drain_closes);
    in_child(not_of_another_class);
    return CHECK_PASS;
}
