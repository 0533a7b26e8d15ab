/* SPDX-License-Identifier: MIT
 *
 * Rest: the heap of a thread that is over serves the next thread as it is. What has rested for long enough is emptied,
 * the latest last; a trim empties all. More than a few do not rest.
 */
#include "core/counters.h"
#include "core/panic.h"
#include "heap_places.h"
#include "sys/sys.h"

#include <pthread.h>

enum {
    CLS = 7 /* the first of which others' blocks are kept */,
    BIG = 71,
    BLOCKS = 300,
    AT_ONCE = 40 /* more than are parked on any machine */
};

static void *kept[BLOCKS], *of_main;
static heap_t *last_heap;
static pthread_barrier_t barrier;

/* As start_heap, but with a delay: without one no heap rests. */
static heap_t *start_parked(const char *delay) {
    CHECK(setenv("HAKMEM_BACKGROUND", "off", 1) == 0 && setenv("HAKMEM_PURGE_DELAY", delay, 1) == 0);
    heap_t *h = heap_current();
    CHECK(h != NULL);
    return h;
}

#define LONG_DELAY "3600000"

static void run(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static uint32_t life_of(const heap_t *h) { return atomic_load(&h->life); }

static size_t slabs_opened(void) {
    return atomic_load(&hk_counters.slabs_new) + atomic_load(&hk_counters.slabs_reused) +
           atomic_load(&hk_counters.slabs_adopted);
}

/* Keeps every third block, frees the others. */
static void *lives(void *unused) {
    (void)unused;
    last_heap = heap_current();
    for (unsigned i = 0; i < BLOCKS; i++)
        kept[i] = magazine_alloc(last_heap, CLS);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % 3 == 0)
            continue;
        release(kept[i]);
        kept[i] = NULL;
    }
    if (of_main != NULL)
        release(of_main);
    return NULL;
}

/* Another life like it, which finds everything in place: frees what the last one kept, as blocks of its own. */
static void *lives_again(void *rested) {
    heap_t *h = heap_current();
    CHECK(h == rested && life_of(h) == HEAP_LIVE);
    CHECK(bin_count(h, CLS) > 0);
    size_t opened = slabs_opened();
    uint64_t remote = h->class_stats[CLS].freed_remote;
    for (unsigned i = 0; i < BLOCKS; i += 3) {
        CHECK_EQ(map_lookup(kept[i]), h->front.tag | CLS);
        release(kept[i]);
    }
    CHECK_EQ(h->class_stats[CLS].freed_remote, remote);
    (void)lives(NULL);
    CHECK_EQ(slabs_opened(), opened);
    return NULL;
}

static void serves_the_next(void) {
    heap_t *h = start_parked(LONG_DELAY);
    of_main = magazine_alloc(h, CLS);
    run(lives, NULL);
    of_main = NULL;
    CHECK_EQ(life_of(last_heap), HEAP_PARKED);
    CHECK_EQ(places_of(CLS).in_remote_tables, 0); /* other heaps' blocks went to them */
    CHECK_EQ(heap_ended_bytes(), atomic_load(&last_heap->slot_count) * HK_SLOT_SIZE + last_heap->magazine_bytes);
    CHECK(heap_ended_bytes() > HK_SLOT_SIZE);
    CHECK_EQ(heap_live_count(), 1);
    uint32_t limit = heap_limit();
    const int64_t countdown = last_heap->front.countdown = 12345;
    run(lives_again, last_heap);
    CHECK_EQ(last_heap->front.countdown,
             countdown); /* it goes on where it was: ticks come however short the lives are */
    CHECK_EQ(heap_limit(), limit);
    CHECK_EQ(life_of(last_heap), HEAP_PARKED);
    CHECK_EQ(live_blocks(CLS), BLOCKS / 3);
    all_is_well();
}

/* Its slabs are there for whoever would open one, at once. */
static void gives_slabs(void) {
    heap_t *h = start_parked(LONG_DELAY);
    run(lives, NULL);
    CHECK_EQ(life_of(last_heap), HEAP_PARKED);
    const size_t adopted = atomic_load(&hk_counters.slabs_adopted), opened = slabs_opened();
    CHECK(magazine_alloc(h, CLS) != NULL);
    CHECK_EQ(atomic_load(&hk_counters.slabs_adopted), adopted + 1);
    CHECK_EQ(slabs_opened(), opened + 1); /* which counts those that were adopted */
    all_is_well();
}

static void *tiny_of_main;

/* Of a class that the thread has none of, and so does not keep. */
static void *frees_a_tiny_one(void *unused) {
    last_heap = heap_current();
    release(tiny_of_main);
    CHECK_EQ(places_of(0).in_remote_tables, 1);
    return unused;
}

static void nothing_of_others_rests(void) {
    tiny_of_main = magazine_alloc(start_parked(LONG_DELAY), 0);
    run(frees_a_tiny_one, NULL);
    CHECK_EQ(life_of(last_heap), HEAP_PARKED);
    CHECK_EQ(places_of(0).in_remote_tables, 0);
    CHECK_EQ(places_of(0).in_messages, 1);
}

static void *waits(void *heap) {
    *(heap_t **)heap = heap_current();
    CHECK(magazine_alloc(*(heap_t **)heap, CLS) != NULL);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void *waits_alone(void *heap) {
    *(heap_t **)heap = heap_current();
    release(heap_malloc_slow(100));
    return NULL;
}

/* Several at once, so that each has a heap of its own; they end in any order. */
static void run_at_once(heap_t **heaps, unsigned count) {
    pthread_t threads[AT_ONCE];
    CHECK(pthread_barrier_init(&barrier, NULL, count) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, waits, &heaps[i]) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(pthread_barrier_destroy(&barrier) == 0);
}

static unsigned count_life(heap_t *const *heaps, unsigned count, uint32_t life) {
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++)
        found += life_of(heaps[i]) == life;
    return found;
}

static void not_for_ever(void) {
    heap_t *heaps[4];
    (void)start_parked(LONG_DELAY);
    run_at_once(heaps, 4);
    CHECK_EQ(count_life(heaps, 4, HEAP_PARKED), 4);
    uint64_t now = sys_now_ms();
    for (unsigned i = 0; i < 4; i++) {
        CHECK(heaps[i]->ended_since_ms <= now);
        heaps[i]->ended_since_ms = 1000; /* all at one time */
    }
    heap_retire_parked(999);
    CHECK_EQ(count_life(heaps, 4, HEAP_PARKED), 4);
    run(lives, NULL);
    heap_retire_parked(1000);
    CHECK_EQ(count_life(heaps, 4, HEAP_UNUSED), 3); /* but the one that lived again */
    CHECK_EQ(count_life(heaps, 4, HEAP_PARKED), 1);
    CHECK(hk_trim_all() < HK_GIB);
    CHECK_EQ(count_life(heaps, 4, HEAP_UNUSED), 4);
    CHECK_EQ(heap_ended_bytes(), 0);
    CHECK_EQ(places_of(CLS).in_magazines, 0);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(atomic_load(&heaps[i]->slot_count), 0);
    all_is_well();
}

static void not_oversubscribed(void) {
    heap_t *heaps[AT_ONCE];
    (void)start_parked(LONG_DELAY);
    run_at_once(heaps, AT_ONCE);
    unsigned parked = count_life(heaps, AT_ONCE, HEAP_PARKED);
    CHECK(parked <= 32);
    CHECK_EQ(count_life(heaps, AT_ONCE, HEAP_UNUSED), AT_ONCE - parked);
    all_is_well();
}

static void *grows(void *unused) {
    (void)unused;
    last_heap = heap_current();
    for (unsigned i = 0; i < 6000; i++)
        CHECK(magazine_alloc(last_heap, BIG) != NULL);
    return NULL;
}

/* However much it has: its slabs need not go through the shared heap, for which all threads that end would wait. */
static void when_large(void) {
    (void)start_parked(LONG_DELAY);
    run(grows, NULL);
    CHECK_EQ(life_of(last_heap), HEAP_PARKED);
    CHECK(heap_ended_bytes() > 128 * HK_SLOT_SIZE);
    CHECK_EQ(atomic_load(&heap_shared()->slot_count), 0);
    heap_t *large = last_heap;
    run(waits_alone, &last_heap);
    CHECK(last_heap == large);
    all_is_well();
}

static void not_without_delay(void) {
    (void)start_parked("-1");
    run(lives, NULL);
    CHECK_EQ(life_of(last_heap), HEAP_UNUSED);
}

static void not_at_once(void) {
    (void)start_parked("0");
    run(lives, NULL);
    CHECK_EQ(life_of(last_heap), HEAP_UNUSED);
}

static void not_hardened(void) {
    CHECK(setenv("HAKMEM_SAFE", "2", 1) == 0);
    (void)start_parked(LONG_DELAY);
    run(waits_alone, &last_heap);
    CHECK_EQ(life_of(last_heap), HEAP_UNUSED);
}

static void *uses_runs(void *unused) {
    (void)unused;
    last_heap = heap_current();
    void *runs[32];
    for (unsigned i = 0; i < 32; i++)
        CHECK((runs[i] = heap_malloc_slow(512 * 1024)) != NULL);
    for (unsigned i = 0; i < 32; i++)
        release(runs[i]);
    CHECK(last_heap->magazines_in_use[HK_MAP_CLASS_LARGE / 64] != 0);
    return NULL;
}

/* Large blocks in magazines are no reason not to rest; they go. */
static void without_runs(void) {
    (void)start_parked(LONG_DELAY);
    run(uses_runs, NULL);
    CHECK_EQ(life_of(last_heap), HEAP_PARKED);
    CHECK_EQ(last_heap->magazines_in_use[HK_MAP_CLASS_LARGE / 64], 0);
    all_is_well();
}

static hak_stats_t snapshot(void) {
    hak_stats_t stats = {.struct_size = sizeof stats};
    hk_snapshot(&stats, true);
    return stats;
}

static size_t resident_of(const heap_t *h) {
    unsigned char pages[HEAP_STRIDE / 4096 + 1] = {0};
    CHECK_EQ(sys_resident(h, HEAP_STRIDE, pages), 0);
    size_t count = 0;
    for (unsigned i = 0; i < sizeof pages; i++)
        count += pages[i] & 1;
    return count * sys_page_size();
}

/* The record of a heap that stays unused goes back, and what it counted stays in the sums. The next thread finds all it
 * needs. */
static void records_go(void) {
    (void)start_parked(LONG_DELAY);
    run(lives, NULL);
    run(uses_runs, NULL);
    heap_retire_parked(UINT64_MAX);
    size_t before = resident_of(last_heap);
    CHECK_EQ(heap_ended_bytes(), HEAP_STRIDE);
    hak_stats_t then = snapshot();
    last_heap->ended_since_ms = 1000;
    heap_give_back_records(999);
    CHECK_EQ(heap_ended_bytes(), HEAP_STRIDE);
    heap_give_back_records(1000);
    size_t after = resident_of(last_heap); /* before anybody looks: what is read is there as a page of zeros */
    hak_stats_t now = snapshot();
    CHECK_EQ(life_of(last_heap), HEAP_UNUSED);
    CHECK_EQ(heap_ended_bytes(), 0);
    CHECK_EQ(last_heap->magazine_bytes, 0);
    if (sys_page_size() == 4096)
        CHECK(before > 4 * 4096 && after == 4096);
    CHECK(then.classes[CLS].alloc_count >= BLOCKS && then.large_allocs >= 8);
    CHECK_EQ(memcmp(&then.classes, &now.classes, sizeof now.classes), 0);
    CHECK(now.live == then.live && now.large_allocs == then.large_allocs && now.large_frees == then.large_frees);
    heap_t *bare = last_heap;
    run(lives, NULL);
    CHECK(last_heap == bare);
    CHECK_EQ(live_blocks(CLS), 2 * (BLOCKS / 3));
    all_is_well();
}

/* Others' blocks in its magazines go home when the heap is retired, by any thread. */
static void *keeps_foreign(void *unused) {
    (void)unused;
    last_heap = heap_current();
    CHECK(magazine_alloc(last_heap, CLS) != NULL);
    for (unsigned i = 0; i < BLOCKS; i++) {
        release(kept[i]);
        kept[i] = NULL;
        if (i == 0)
            heap_tick(last_heap); /* from now on its magazine keeps them */
    }
    CHECK(last_heap->class_stats[CLS].kept > 0);
    return NULL;
}

static void foreign_blocks_go_home(void) {
    heap_t *h = start_parked(LONG_DELAY);
    for (unsigned i = 0; i < BLOCKS; i++)
        kept[i] = magazine_alloc(h, CLS);
    run(keeps_foreign, NULL);
    CHECK_EQ(life_of(last_heap), HEAP_PARKED);
    CHECK_EQ(live_blocks(CLS), 1);
    heap_retire_parked(UINT64_MAX);
    CHECK_EQ(live_blocks(CLS), 1);
    CHECK_EQ(places_of(CLS).in_remote_tables, 0);
    all_is_well();
}

/* A sleeping heap like any other: frees of its blocks wait for it, and its slabs may be adopted. */
static void others_may_help(void) {
    heap_t *h = start_parked(LONG_DELAY);
    run(lives, NULL);
    for (unsigned i = 0; i < BLOCKS; i += 3)
        release(kept[i]);
    heap_remote_post_all(h);
    CHECK_EQ(live_blocks(CLS), 0);
    CHECK(places_of(CLS).in_messages > 0);
    size_t adopted = atomic_load(&hk_counters.slabs_adopted);
    (void)magazine_alloc(h, CLS + 40); /* sees the heap for the first time */
    usleep(60000);
    void *block = magazine_alloc(h, CLS);
    CHECK_EQ(atomic_load(&hk_counters.slabs_adopted), adopted + 1);
    CHECK_EQ(map_lookup(block), h->front.tag | CLS);
    heap_retire_parked(UINT64_MAX);
    CHECK_EQ(live_blocks(CLS), 1);
    all_is_well();
}

static void *frees_again(void *block) {
    release(block);
    return NULL;
}

static void *leaves_one_freed(void *block) {
    last_heap = heap_current();
    release(*(void **)block = magazine_alloc(last_heap, CLS));
    return NULL;
}

static void double_free_across_lives(void) {
    void *block;
    CHECK(setenv("HAKMEM_ON_ERROR", "ignore", 1) == 0);
    heap_t *h = start_parked(LONG_DELAY);
    run(leaves_one_freed, &block);
    run(frees_again, block);
    CHECK_EQ(hk_misuse_count(), 1);
    run(leaves_one_freed, &block);
    release(block); /* by another heap's thread */
    CHECK_EQ(hk_misuse_count(), 2);
    heap_retire_parked(UINT64_MAX);
    heap_remote_post_all(h);
    CHECK_EQ(live_blocks(CLS), 0);
    all_is_well();
}

static void in_the_child(void) {
    CHECK_EQ(life_of(last_heap), HEAP_PARKED);
    run(lives_again, last_heap);
    CHECK_EQ(live_blocks(CLS), BLOCKS / 3);
    heap_retire_parked(UINT64_MAX);
    CHECK_EQ(life_of(last_heap), HEAP_UNUSED);
    all_is_well();
}

static void across_fork(void) {
    (void)start_parked(LONG_DELAY);
    run(lives, NULL);
    in_child(in_the_child);
    run(lives_again, last_heap);
}

static heap_t *retiring[4];

static void in_the_child_of_who_retires(void) {
    heap_t *h = heap_current();
    CHECK_EQ(count_life(retiring, 4, HEAP_ORPHAN), 4);
    for (unsigned i = 0; i < 4; i++)
        heap_adopt_orphan();
    CHECK_EQ(count_life(retiring, 4, HEAP_UNUSED), 4);
    CHECK(!heap_is_oversubscribed());
    heap_adopt_orphan(); /* there is none */
    CHECK(magazine_alloc(h, CLS) != NULL);
    all_is_well();
}

static pthread_mutex_t ends = PTHREAD_MUTEX_INITIALIZER;

static void *is_there(void *unused) {
    CHECK(pthread_mutex_lock(&ends) == 0 && pthread_mutex_unlock(&ends) == 0);
    return unused;
}

/* Another thread was at it when this one forked. */
static void fork_while_retiring(void) {
    pthread_t thread;
    (void)start_parked(LONG_DELAY);
    run_at_once(retiring, 4);
    CHECK(pthread_mutex_lock(&ends) == 0 && pthread_create(&thread, NULL, is_there, NULL) == 0);
    for (unsigned i = 0; i < 4; i++)
        atomic_store(&retiring[i]->life, HEAP_RETIRING);
    in_child(in_the_child_of_who_retires);
    for (unsigned i = 0; i < 4; i++)
        atomic_store(&retiring[i]->life, HEAP_PARKED);
    CHECK(pthread_mutex_unlock(&ends) == 0 && pthread_join(thread, NULL) == 0);
}

int main(void) {
    in_child(serves_the_next);
    in_child(nothing_of_others_rests);
    in_child(not_for_ever);
    in_child(not_oversubscribed);
    in_child(gives_slabs);
    in_child(when_large);
    in_child(not_without_delay);
    in_child(not_at_once);
    in_child(not_hardened);
    in_child(without_runs);
    in_child(records_go);
    in_child(foreign_blocks_go_home);
    in_child(others_may_help);
    in_child(double_free_across_lives);
    in_child(across_fork);
    in_child(fork_while_retiring);
    return CHECK_PASS;
}
