/* SPDX-License-Identifier: MIT
 *
 * A heap whose thread has to wait for the pool's lock, and more than now and then, takes slots along that it does not
 * need yet, keeps those of more superslabs, and gives back those of one at a time.
 */
#include "heap/slot_cache.h"
#include "heap_places.h"
#include "large/large.h"
#include "superslab/superslab.h"

#include <pthread.h>

/* As in slot_cache.c. */
enum { A_WAIT = 8, MANY_WAITS = 16, MOST_WAITS = 48, SHORT = 4, SPARE = 16 };

static size_t kept(const heap_t *h) { return slot_cache_bytes(h) / HK_SLOT_SIZE; }

static char *run(heap_t *h, size_t slots, bool *zeroed) {
    char *block = slot_cache_alloc(h, slots * HK_SLOT_SIZE, 1, zeroed);
    CHECK(block != NULL && large_is_live(block) && large_size(block) == slots * HK_SLOT_SIZE);
    return block;
}

static void give(heap_t *h, char *block) {
    size_t now;
    memset(block, 7, large_size(block));
    CHECK(slot_cache_free(h, block, &now));
}

static heap_t *start_contended(void) {
    heap_t *h = start_heap();
    hk_write(h->waits, MOST_WAITS);
    return h;
}

static pthread_barrier_t barrier;

static void *holds_the_lock(void *unused) {
    hk_lock(&hk_superslab_lock);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(usleep(30000), 0);
    hk_unlock(&hk_superslab_lock);
    return unused;
}

static void wait_for_the_pool(heap_t *h) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, holds_the_lock, NULL) == 0);
    pthread_barrier_wait(&barrier);
    slot_cache_give_back(h); /* has nothing: it waits for no lock */
    (void)run(h, 1, NULL);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Two waits may be chance. A visit that finds the lock free counts for an eighth of one that does not. */
static void waits_are_counted(void) {
    heap_t *h = start_heap();
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
    (void)run(h, 1, NULL);
    CHECK_EQ(hk_read(h->waits), 0);
    wait_for_the_pool(h);
    CHECK(hk_read(h->waits) == A_WAIT && kept(h) == 0);
    for (unsigned i = 1; i <= A_WAIT; i++) {
        (void)run(h, 1, NULL);
        CHECK_EQ(hk_read(h->waits), A_WAIT - i);
    }
    (void)run(h, 1, NULL);
    wait_for_the_pool(h);
    wait_for_the_pool(h);
    CHECK(hk_read(h->waits) == MANY_WAITS && kept(h) == 0);
    (void)run(h, 1, NULL);
    CHECK(hk_read(h->waits) == MANY_WAITS - 1 && kept(h) == SPARE);
    slot_cache_give_back(h);
    for (unsigned i = 0; i < 7; i++)
        wait_for_the_pool(h), slot_cache_give_back(h);
    CHECK_EQ(hk_read(h->waits), MOST_WAITS);
    slot_cache_begin(h); /* another thread's heap */
    CHECK_EQ(hk_read(h->waits), 0);
    all_is_well();
}

/* Those behind the run, so that it can grow, and the next lies there. They are taken in the pool, read as zeros, and
 * are no growth of memory before they are used. */
static void takes_spare_slots(void) {
    heap_t *h = start_contended();
    const size_t taken = superslab_used_slots(), grown = superslab_grown();
    bool zeroed = false;
    char *first = run(h, 2, &zeroed);
    CHECK(zeroed && kept(h) == SPARE && superslab_used_slots() == taken + 2 + SPARE);
    CHECK(superslab_grown() == 2 && grown == 0);
    char *second = run(h, SHORT, &zeroed);
    CHECK(zeroed && second == first + 2 * HK_SLOT_SIZE && kept(h) == SPARE - SHORT);
    CHECK_EQ(superslab_grown(), SHORT);
    give(h, second);
    CHECK(kept(h) == SPARE && run(h, 1, &zeroed) == second && !zeroed); /* one word: the others are fresh no more */
    CHECK_EQ(superslab_grown(), 0);
    CHECK_EQ(hk_read(h->waits), MOST_WAITS - 1);
    slot_cache_give_back(h);
    CHECK_EQ(superslab_used_slots(), taken + 3);
    CHECK_EQ(pool_count(&hk_pool.dirty), SPARE - 1);
    all_is_well();
}

/* Fresh slots that nobody used go to the pool as they came. */
static void fresh_slots_stay_clean(void) {
    heap_t *h = start_contended();
    char *first = run(h, 1, NULL);
    slot_cache_give_back(h);
    CHECK(kept(h) == 0 && pool_count(&hk_pool.dirty) == 0);
    bool zeroed;
    CHECK(run(h, 1, &zeroed) == first + HK_SLOT_SIZE && zeroed);
    (void)superslab_grown();
    CHECK(slot_cache_extend(h, first + HK_SLOT_SIZE, 3 * HK_SLOT_SIZE) && kept(h) == SPARE - 2);
    CHECK_EQ(superslab_grown(), 2);
    slot_cache_make_way(h, first);
    CHECK(kept(h) == 0 && pool_count(&hk_pool.dirty) == 0);
    all_is_well();
}

/* Those that a huge page brought along read as zeros, and are resident. */
static void brought_along_is_dirty(void) {
    heap_t *h = start_contended();
    char *first = run(h, 1, NULL);
    slot_cache_give_back(h);
    superslab_t *s = pool_record(map_slot(first) / SLOTS);
    hk_lock(&hk_superslab_lock);
    const uint32_t free = s->free_mask;
    (void)pool_take_locked(s, free);
    pool_give_fresh_locked(s, free, true);
    hk_unlock(&hk_superslab_lock);
    const size_t dirty = pool_count(&hk_pool.dirty);
    CHECK_EQ(dirty, SLOTS - 1);
    (void)run(h, 1, NULL);
    CHECK(kept(h) == SPARE && pool_count(&hk_pool.dirty) == dirty - 1 - SPARE);
    slot_cache_give_back(h);
    CHECK_EQ(pool_count(&hk_pool.dirty), dirty - 1);
    all_is_well();
}

/* Dirty ones first: they are resident. */
static void resident_slots_first(void) {
    heap_t *h = start_contended();
    hk_write(h->waits, 0);
    char *blocks[8];
    for (unsigned i = 0; i < 8; i++)
        blocks[i] = run(h, 1, NULL);
    for (unsigned i = 0; i < 8; i += 2)
        large_free(&h->large, blocks[i], true);
    CHECK_EQ(pool_count(&hk_pool.dirty), 4);
    hk_write(h->waits, MOST_WAITS);
    bool zeroed = true;
    (void)run(h, 1, &zeroed);
    CHECK(!zeroed && kept(h) == 3 && pool_count(&hk_pool.dirty) == 0);
    (void)run(h, 1, &zeroed);
    CHECK(!zeroed && kept(h) == 2);
    all_is_well();
}

/* A long run is worth a visit of the pool, and others need what is there. */
static void none_beside_long_runs(void) {
    heap_t *h = start_contended();
    (void)run(h, SHORT + 1, NULL);
    CHECK_EQ(kept(h), 0);
    hk_write(h->waits, MANY_WAITS - 1);
    (void)run(h, 1, NULL);
    CHECK_EQ(kept(h), 0);
    all_is_well();
}

/* With so many threads its part is small; they are more than the processors serve, and do not sleep. */
static size_t set_small_part(void) {
    budget_set_threads(2 * heap_threads_at_ease() + 4);
    CHECK_EQ(heap_press(), HEAP_OVERSUBSCRIBED);
    const size_t part = budget_slot_bytes(0) / HK_SLOT_SIZE;
    CHECK(part > SPARE && part < SLOTS && budget_slot_bytes(HK_GIB) == budget_slot_bytes(0));
    return part;
}

/* Of the heap's part, what it does not have yet. */
static void no_more_than_its_part(void) {
    heap_t *h = start_contended();
    char *blocks[2 * SLOTS];
    hk_write(h->waits, 0);
    for (unsigned i = 0; i < 2 * SLOTS; i++)
        blocks[i] = run(h, 1, NULL);
    const size_t part = set_small_part();
    hk_write(h->waits, MOST_WAITS);
    for (unsigned i = 0; i < part - 2; i++) /* no two side by side */
        give(h, blocks[2 * i]);
    CHECK_EQ(kept(h), part - 2);
    (void)run(h, SHORT, NULL);
    CHECK_EQ(kept(h), part);
    all_is_well();
}

/* A word for each superslab: sixteen, and then the fullest makes room. */
static void more_superslabs(void) {
    enum { MANY = HEAP_SLOT_WORDS + 1 };
    heap_t *h = start_contended();
    char *blocks[MANY];
    hk_write(h->waits, 0);
    for (unsigned i = 0; i < MANY; i++) {
        blocks[i] = slot_cache_alloc(h, HK_SUPERSLAB_SIZE, HK_SUPERSLAB_SIZE, NULL);
        CHECK_EQ((uintptr_t)blocks[i] % HK_SUPERSLAB_SIZE, 0);
        large_shrink(&h->large, blocks[i], (i == 3 ? 2 : 1) * HK_SLOT_SIZE);
    }
    hk_write(h->waits, MOST_WAITS);
    for (unsigned i = 0; i < MANY - 1; i++)
        give(h, blocks[i]);
    CHECK_EQ(kept(h), MANY);
    const size_t taken = superslab_used_slots();
    give(h, blocks[MANY - 1]);
    CHECK(kept(h) == MANY - 1 && superslab_used_slots() == taken - 2);
    CHECK(run(h, 1, NULL) != blocks[3]);
    hk_write(h->waits, MANY_WAITS); /* the next visit finds the lock free: there are four words again */
    (void)run(h, SHORT + 1, NULL);
    CHECK(kept(h) == 0 && hk_read(h->waits) == MANY_WAITS - 1);
    all_is_well();
}

/* Where it may keep no more, the slots of a whole superslab go at once: one visit for many runs. Not to a heap without
 * a thread, from which nobody takes them. */
static void gives_back_together(void) {
    heap_t *h = start_contended();
    char *blocks[2 * SLOTS];
    hk_write(h->waits, 0);
    for (unsigned i = 0; i < 2 * SLOTS; i++)
        blocks[i] = run(h, 1, NULL);
    CHECK_EQ(map_slot(blocks[SLOTS - 1]) / SLOTS, map_slot(blocks[0]) / SLOTS);
    const size_t part = set_small_part();
    hk_write(h->waits, MOST_WAITS);
    for (unsigned i = 0; i < part; i++)
        give(h, blocks[i]);
    CHECK_EQ(kept(h), part);
    const size_t taken = superslab_used_slots();
    give(h, blocks[SLOTS]);
    CHECK(kept(h) == 1 && superslab_used_slots() == taken - part);
    give(h, blocks[SLOTS + 1]);
    CHECK(kept(h) == 2 && superslab_used_slots() == taken - part);
    budget_set_threads(1);
    atomic_store_explicit(&h->life, HEAP_PARKED, memory_order_relaxed);
    size_t now;
    CHECK(slot_cache_free(heap_shared(), blocks[SLOTS + 2], &now) && now == 0 && kept(h) == 2);
    atomic_store_explicit(&h->life, HEAP_LIVE, memory_order_relaxed);
    CHECK(slot_cache_free(heap_shared(), blocks[SLOTS + 3], &now) && now == 3 * HK_SLOT_SIZE && kept(h) == 3);
    all_is_well();
}

/* A long run for which there is no room goes to the pool itself. */
static void no_room_for_long_runs(void) {
    enum { MANY = 2 * SLOTS, LONG = SHORT + 1 };
    heap_t *h = start_contended();
    char *blocks[MANY];
    hk_write(h->waits, 0);
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = run(h, i == 0 ? LONG : 1, NULL);
    for (unsigned i = 1; i < MANY; i++)
        give(h, blocks[i]);
    const size_t had = kept(h), taken = superslab_used_slots();
    CHECK(had > budget_slot_bytes(0) / HK_SLOT_SIZE); /* from when more was live */
    hk_write(h->waits, MOST_WAITS);
    give(h, blocks[0]);
    CHECK(kept(h) == had && superslab_used_slots() == taken - LONG);
    all_is_well();
}

/* Beside many runs, short ones of a contended heap alone. */
static void beside_many_runs(void) {
    enum { MANY = 9 };
    heap_t *h = start_contended();
    void *others[MANY];
    for (unsigned i = 0; i < MANY; i++)
        others[i] = large_alloc(&h->large, HK_MIB, 1, NULL);
    hk_write(h->waits, 0);
    char *longer = run(h, SHORT + 1, NULL), *shorter = run(h, SHORT, NULL), *other = run(h, SHORT, NULL);
    give(h, other);
    CHECK_EQ(kept(h), 0);
    hk_write(h->waits, MANY_WAITS);
    give(h, longer);
    CHECK_EQ(kept(h), 0);
    give(h, shorter);
    CHECK_EQ(kept(h), SHORT);
    for (unsigned i = 0; i < MANY; i++)
        CHECK(large_free(&h->large, others[i], true));
    all_is_well();
}

/* Who has more threads than processors keeps short runs where threads wait for the pool, unless most of them sleep. */
static void when_oversubscribed(void) {
    heap_t *h = start_contended();
    char *blocks[4];
    hk_write(h->waits, 0);
    for (unsigned i = 0; i < 4; i++)
        blocks[i] = run(h, i == 1 ? SHORT + 1 : 1, NULL);
    budget_set_threads(heap_threads_at_ease() + 1);
    CHECK_EQ(heap_press(), HEAP_OVERSUBSCRIBED);
    give(h, blocks[0]);
    CHECK_EQ(kept(h), 0);
    hk_write(h->waits, MOST_WAITS);
    give(h, blocks[1]);
    CHECK_EQ(kept(h), 0);
    give(h, blocks[2]);
    CHECK_EQ(kept(h), 1);
    budget_set_threads(5 * heap_threads_at_ease() + 1);
    CHECK_EQ(heap_press(), HEAP_HEAVILY);
    give(h, blocks[3]);
    CHECK_EQ(kept(h), 1);
    all_is_well();
}

int main(void) {
    in_child(waits_are_counted);
    in_child(takes_spare_slots);
    in_child(fresh_slots_stay_clean);
    in_child(brought_along_is_dirty);
    in_child(resident_slots_first);
    in_child(none_beside_long_runs);
    in_child(no_more_than_its_part);
    in_child(more_superslabs);
    in_child(gives_back_together);
    in_child(no_room_for_long_runs);
    in_child(beside_many_runs);
    in_child(when_oversubscribed);
    return CHECK_PASS;
}
