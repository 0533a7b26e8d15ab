/* SPDX-License-Identifier: MIT
 *
 * What a thread frees of long blocks stays with its heap as free slots of a few superslabs, from which the next ones
 * are cut, whatever their length; and goes to the pool when upkeep comes, when the thread ends, or where others need
 * it.
 */
#include "heap/lists.h"
#include "heap/slot_cache.h"
#include "heap/supply.h"
#include "heap_places.h"
#include "large/large.h"
#include "slow/sizes.h"
#include "superslab/superslab.h"
#include "upkeep/round.h"

#include <pthread.h>

static const size_t LONGEST = HK_MIB; /* that is kept where no run is live */

static size_t taken_slots(void) { return superslab_used_slots(); }

static void *run(size_t slots) { return heap_malloc_slow(slots * HK_SLOT_SIZE); }

static size_t kept(const heap_t *h) { return slot_cache_bytes(h) / HK_SLOT_SIZE; }

static heap_t *start_with_slots(void) {
    heap_t *h = start_heap();
    release(heap_malloc_slow(LONGEST));
    CHECK_EQ(slot_cache_bytes(h), LONGEST);
    return h;
}

/* The pool has no part in it, whatever the length. */
static void cut_and_joined(void) {
    heap_t *h = start_with_slots();
    const size_t taken = taken_slots();
    for (size_t size = HK_MID_MAX + 1; size <= LONGEST - 7 * HK_SLOT_SIZE; size += 50000) {
        char *block = heap_malloc_slow(size);
        CHECK(large_is_live(block) && large_size(block) == hk_align_up(size, HK_SLOT_SIZE));
        CHECK_EQ(slot_cache_bytes(h) + large_size(block), LONGEST);
        memset(block, 7, size);
        char *second = heap_malloc_slow(100000), *third = heap_malloc_slow(HK_MID_MAX + 1);
        CHECK(third != block && second != block);
        release(third);
        release(block);
        release(second);
        all_is_well();
        magazine_tick(h); /* no class is used often */
    }
    CHECK_EQ(slot_cache_bytes(h), LONGEST);
    CHECK_EQ(taken_slots(), taken);
}

/* The shortest hole that serves, so that a long one is there for a long block. */
static void shortest_that_serves(void) {
    heap_t *h = start_with_slots();
    char *a = run(6), *b = run(1), *c = run(5), *d = run(4);
    CHECK(b == a + 6 * HK_SLOT_SIZE && c == b + HK_SLOT_SIZE && d == c + 5 * HK_SLOT_SIZE && kept(h) == 0);
    release(a);
    release(c);
    CHECK_EQ(kept(h), 11);
    char *five = run(5), *six = run(6);
    CHECK(five == c && six == a && kept(h) == 0);
    release(five);
    release(b);
    release(six);
    release(d);
    CHECK(kept(h) == 16 && run(17) != a && kept(h) == 16);
    CHECK(run(16) == a && kept(h) == 0);
    all_is_well();
}

/* A superslab has one word. Where all words are taken, the one with the fewest slots makes room, if these are fewer. */
static void a_word_for_each_superslab(void) {
    enum { WORDS = 4 }; /* as FEW_WORDS */
    heap_t *h = start_heap();
    void *wide[WORDS + 1];
    for (unsigned i = 0; i <= WORDS; i++) { /* each in a superslab of its own */
        wide[i] = heap_aligned(HK_SUPERSLAB_SIZE, (30 - i) * HK_SLOT_SIZE);
        CHECK_EQ((uintptr_t)wide[i] % HK_SUPERSLAB_SIZE, 0);
    }
    for (unsigned i = 0; i <= WORDS; i++)
        large_shrink(&h->large, wide[i], (i + 1) * HK_SLOT_SIZE);
    const size_t all = taken_slots(), expected[] = {1, 3, 6, 10, 14}; /* the last takes the place of the first */
    for (unsigned i = 0; i <= WORDS; i++) {
        release(wide[i]);
        CHECK_EQ(kept(h), expected[i]);
    }
    CHECK_EQ(taken_slots(), all - 1);
    const size_t taken = taken_slots();
    void *other = heap_aligned(HK_SUPERSLAB_SIZE, 5 * HK_SLOT_SIZE);
    large_shrink(&h->large, other, 2 * HK_SLOT_SIZE);
    release(other); /* no more than the fewest */
    CHECK_EQ(kept(h), 14);
    CHECK_EQ(taken_slots(), taken);
    void *two = run(2);
    CHECK(two == wide[1]);
    release(two);
    slot_cache_give_back(h);
    CHECK_EQ(kept(h), 0);
    CHECK_EQ(taken_slots(), taken - 14);
    all_is_well();
}

/* A run across the border of two superslabs has no place in a word. */
static void not_across_a_border(void) {
    enum { MANY = 2 * SLOTS, RUN = 4 };
    heap_t *h = start_heap();
    const slot_t first = slots_alloc(MANY, 1, SLOTS_SPARSE).first;
    const slot_t border = (first + RUN / 2 + SLOTS - 1) / SLOTS * SLOTS, begin = border - RUN / 2;
    CHECK(first != 0 && begin >= first && begin + RUN <= first + MANY);
    const size_t taken = taken_slots();
    release(large_begin(&h->large, begin, RUN));
    CHECK_EQ(kept(h), 0);
    CHECK_EQ(taken_slots(), taken - RUN);
    if (begin > first)
        slots_free_for_reuse(first, begin - first);
    slots_free_for_reuse(begin + RUN, first + MANY - begin - RUN);
    all_is_well();
}

/* What was free memory before does not read as zeros. */
static void zeros_are_written(void) {
    heap_t *h = start_with_slots();
    char *block = heap_malloc_slow(LONGEST);
    memset(block, 7, LONGEST);
    release(block);
    for (size_t size = 100000; size <= LONGEST; size += 150000) {
        block = heap_calloc_slow(size);
        CHECK(slot_cache_bytes(h) < LONGEST && all_zeros(block, size));
        memset(block, 7, size);
        release(block);
    }
    all_is_well();
}

/* A block that grows has the slots behind it, whether the heap has them or the pool; which has all of the heap's, if
 * those alone do not serve. */
static void grows_into_slots(void) {
    heap_t *h = start_with_slots();
    char *low = run(8), *high = run(8);
    CHECK(low + 8 * HK_SLOT_SIZE == high);
    release(high);
    low[0] = 5;
    const size_t taken = taken_slots();
    CHECK(heap_realloc(low, 12 * HK_SLOT_SIZE, NULL) == low && low[0] == 5 && kept(h) == 4);
    CHECK(large_size(low) == 12 * HK_SLOT_SIZE && large_live_bytes(&h->large) == large_size(low));
    CHECK_EQ(taken_slots(), taken);
    CHECK(heap_realloc(low, 17 * HK_SLOT_SIZE, NULL) == low && kept(h) == 0 && taken_slots() == taken + 1);
    release(low);
    CHECK(kept(h) == 17 && large_live_bytes(&h->large) == 0);
    low = run(6), high = run(6);
    release(high);
    CHECK_EQ(heap_expand(low, 7 * HK_SLOT_SIZE, NULL), 7 * HK_SLOT_SIZE);
    CHECK_EQ(kept(h), 10);
    CHECK_EQ(heap_expand(low, 18 * HK_SLOT_SIZE, NULL), 18 * HK_SLOT_SIZE);
    CHECK_EQ(kept(h), 0);
    release(low);
    CHECK_EQ(kept(h), 18);
    low = heap_malloc_slow(4 * HK_SLOT_SIZE - HK_SLOT_SIZE / 2), high = run(3); /* alone */
    CHECK(large_alone_class(low) < HK_CLASS_COUNT && low + 4 * HK_SLOT_SIZE == high);
    release(high);
    CHECK(heap_realloc(low, 5 * HK_SLOT_SIZE, NULL) == low && large_alone_class(low) == HK_CLASS_COUNT);
    CHECK(kept(h) == 13 && large_live_bytes(&h->large) == 5 * HK_SLOT_SIZE);
    CHECK_EQ(large_alone_count(&h->large, class_of(4 * HK_SLOT_SIZE)), 0);
    release(low);
    all_is_well();
}

/* Growth is served first: where the pool would open a superslab for a slab, it has the slots. */
static void makes_room_for_a_slab(void) {
    heap_t *h = start_with_slots();
    while (!superslab_may_open_for(1)) /* until the superslab is full */
        CHECK(slots_alloc(1, 1, SLOTS_SPARSE).first != 0 && kept(h) == 16);
    const size_t superslabs = pool_count(&hk_pool.superslabs);
    heap_lock(h);
    CHECK(heap_open_slab_locked(h, class_of(16)) != NULL);
    heap_unlock(h);
    CHECK_EQ(kept(h), 0);
    CHECK_EQ(pool_count(&hk_pool.superslabs), superslabs);
    release(run(12));
    CHECK_EQ(kept(h), 12);
    slots_free_for_reuse(slots_alloc(8, 1, SLOTS_SPARSE).first, 8); /* there is room elsewhere */
    heap_lock(h);
    CHECK(heap_open_slab_locked(h, class_of(32)) != NULL);
    heap_unlock(h);
    CHECK_EQ(kept(h), 12);
    all_is_well();
}

static void *ends(void *unused) {
    (void)unused;
    heap_t *h = heap_current();
    release(run(4));
    CHECK_EQ(kept(h), 4);
    return h;
}

static void goes_with_upkeep_or_the_thread(void) {
    CHECK(setenv("HAKMEM_BACKGROUND", "off", 1) == 0 && setenv("HAKMEM_PURGE_DELAY", "3600000", 1) == 0);
    heap_t *h = heap_current();
    release(run(17)); /* without a helper, the first free has a round of upkeep */
    CHECK_EQ(kept(h), 0);
    release(heap_malloc_slow(LONGEST));
    CHECK_EQ(slot_cache_bytes(h), LONGEST);
    const size_t taken = taken_slots();
    CHECK(upkeep_waits() && heap_trim() >= LONGEST);
    CHECK_EQ(kept(h), 0);
    CHECK_EQ(taken_slots(), taken - 16);
    release(run(15));
    CHECK(!upkeep_waits());
    (void)upkeep_round();
    CHECK_EQ(kept(h), 0);
    pthread_t thread;
    void *ended;
    CHECK_EQ(pthread_create(&thread, NULL, ends, NULL), 0);
    CHECK_EQ(pthread_join(thread, &ended), 0);
    CHECK(ended != h && slot_cache_bytes(ended) == 0); /* parked */
    heap_retire_parked(UINT64_MAX);
    (void)heap_trim();
    CHECK_EQ(taken_slots(), taken - 16);
    all_is_well();
}

/* As much more as is in use, up to a bound; and beside many long blocks it counts where one lies. */
static void how_much(void) {
    enum { MANY = 24, FEW = 8 }; /* as FEW_BYTES */
    heap_t *h = start_heap();
    void *blocks[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        blocks[i] = run(15);
        if (i % 4 == 0)
            magazine_tick(h); /* the class is not used often */
    }
    for (unsigned i = 0; i < MANY; i++) {
        release(blocks[i]);
        CHECK_EQ(kept(h), i < MANY - FEW ? 0 : hk_min((i - (MANY - FEW) + 1) * 15, 64 / 15 * 15));
    }
    all_is_well();
}

static void *hands_over(void *place) {
    void **blocks = place;
    for (unsigned i = 0; i < 12; i++)
        blocks[i] = run(15);
    return heap_current();
}

/* What a thread frees of others' goes to the heap that took it, up to a bound, as long as it has a thread; and what
 * threads without a heap took, to the pool. */
static void *frees_all(void *place) {
    for (void **blocks = place; *blocks != NULL; blocks++)
        release(*blocks);
    return heap_current();
}

static void freed_elsewhere(void **blocks, const heap_t *not_there) {
    pthread_t thread;
    void *there;
    CHECK(pthread_create(&thread, NULL, frees_all, blocks) == 0 && pthread_join(thread, &there) == 0);
    CHECK(there != not_there && kept(there) == 0);
}

static void slots_go_home(void) {
    enum { MANY = 7, MOST = 32 }; /* as budget_slot_bytes(0) */
    heap_t *h = start_heap();
    void *blocks[MANY + 1] = {NULL};
    const size_t taken = taken_slots();
    for (unsigned turn = 0; turn < 20; turn++) {
        for (unsigned i = 0; i < 3; i++)
            blocks[i] = run(5 + i);
        blocks[3] = heap_malloc_slow(3 * HK_SLOT_SIZE - 1000); /* alone */
        CHECK(large_alone_class(blocks[3]) < HK_CLASS_COUNT);
        const size_t live = large_live_bytes(&h->large);
        freed_elsewhere(blocks, h);
        CHECK_EQ(kept(h), 21);
        CHECK(large_live_bytes(&h->large) < live && large_alone_count(&h->large, class_of(3 * HK_SLOT_SIZE)) == 0);
        magazine_tick(h); /* no class is used often */
    }
    CHECK_EQ(large_live_bytes(&h->large), 0);
    CHECK(taken_slots() <= taken + 21 + hk_class_info[HK_CLASS_COUNT - 1].slab_slots);
    slot_cache_give_back(h);
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = run(10 + i);
    freed_elsewhere(blocks, h);
    CHECK(kept(h) <= MOST && kept(h) > MOST - 10 - MANY);
    all_is_well();
}

/* A run that another thread grows has the slots behind it, which lie with the heap that took it; and both heaps know
 * what they have. */
static void *grows_all(void *place) {
    heap_t *h = heap_current();
    for (char **blocks = place; *blocks != NULL; blocks += 2) {
        CHECK(heap_realloc(blocks[0], 12 * HK_SLOT_SIZE, NULL) == blocks[0]);
        release(blocks[0]);
        CHECK_EQ(heap_expand(blocks[1], 8 * HK_SLOT_SIZE, NULL), 8 * HK_SLOT_SIZE);
        release(blocks[1]);
    }
    CHECK_EQ(large_live_bytes(&h->large), 0);
    return h;
}

static void make_way_for_others(void) {
    heap_t *h = start_heap();
    char *blocks[] = {run(8), run(8), run(6), run(6), NULL};
    CHECK(blocks[1] == blocks[0] + 8 * HK_SLOT_SIZE && blocks[3] == blocks[2] + 6 * HK_SLOT_SIZE);
    release(blocks[1]);
    release(blocks[3]);
    CHECK_EQ(kept(h), 14);
    blocks[1] = blocks[2], blocks[2] = NULL;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, grows_all, blocks) == 0 && pthread_join(thread, NULL) == 0);
    CHECK_EQ(large_live_bytes(&h->large), 0);
    all_is_well();
}

static void not_where_nobody_takes_them(void) {
    heap_t *h = start_heap();
    size_t bytes;
    for (unsigned i = 0; i < 100; i++)
        release(large_alloc(&heap_shared()->large, LONGEST, 1, NULL));
    CHECK(slot_cache_free(heap_shared(), large_alloc(&heap_shared()->large, LONGEST, 1, NULL), &bytes) && bytes == 0);
    CHECK(kept(h) == 0 && kept(heap_shared()) == 0);
    pthread_t thread;
    void *blocks[13] = {NULL}, *ended;
    CHECK(pthread_create(&thread, NULL, hands_over, blocks) == 0 && pthread_join(thread, &ended) == 0);
    (void)frees_all(blocks);
    CHECK(ended != h && kept(ended) == 0 && kept(h) == 0);
    all_is_well();
}

static void not_beside_many_of_them(void) {
    enum { MANY = 10 };
    heap_t *h = start_heap();
    void *blocks[MANY + 1] = {NULL}, *last[2] = {NULL};
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = heap_aligned(HK_SUPERSLAB_SIZE, LONGEST);
    for (unsigned i = 0; i < MANY; i++) {
        last[0] = blocks[i];
        freed_elsewhere(last, h);
        CHECK_EQ(kept(h), i < MANY - 8 ? 0 : hk_min((i - (MANY - 8) + 1) * 16, 32));
    }
    all_is_well();
}

/* Without upkeep no heap is parked. */
static void goes_with_a_heap_that_is_not_parked(void) {
    (void)start_heap();
    pthread_t thread;
    void *ended;
    CHECK(pthread_create(&thread, NULL, ends, NULL) == 0 && pthread_join(thread, &ended) == 0);
    CHECK_EQ(slot_cache_bytes(ended), 0);
    all_is_well();
}

/* A thread whose runs others free ends; the next one with its heap has a cache. */
static void not_what_was_before(void) {
    CHECK(setenv("HAKMEM_BACKGROUND", "off", 1) == 0 && setenv("HAKMEM_PURGE_DELAY", "3600000", 1) == 0);
    void *blocks[12], *heaps[2];
    pthread_t thread;
    release(run(9)); /* has a round of upkeep, so that the next frees have none */
    CHECK(pthread_create(&thread, NULL, hands_over, blocks) == 0 && pthread_join(thread, &heaps[0]) == 0);
    for (unsigned i = 0; i < 12; i++)
        release(blocks[i]);
    CHECK(pthread_create(&thread, NULL, ends, NULL) == 0 && pthread_join(thread, &heaps[1]) == 0);
    CHECK(heaps[0] == heaps[1]);
    all_is_well();
}

static unsigned calls;
static void called(void) { calls++; }

/* Upkeep hears of them at any tick, not at a long block's free alone. */
static void upkeep_hears_of_them(void) {
    heap_t *h = start_with_slots();
    heap_wake_by(called);
    heap_memory_freed(h);
    CHECK_EQ(calls, 1);
    slot_cache_give_back(h);
    (void)superslab_purge(SIZE_MAX);
    heap_memory_freed(h);
    CHECK_EQ(calls, 1);
}

static void less_with_many_threads(void) {
    (void)start_heap();
    CHECK_EQ(budget_slot_bytes(0), 2 * HK_MIB);
    CHECK_EQ(budget_slot_bytes(HK_MIB), 3 * HK_MIB);
    CHECK_EQ(budget_slot_bytes(SIZE_MAX / 2), 4 * HK_MIB);
    budget_set_threads(32); /* oversubscribed */
    CHECK_EQ(budget_slot_bytes(0), HK_MIB);
    CHECK_EQ(budget_slot_bytes(SIZE_MAX / 2), HK_MIB);
}

int main(void) {
    in_child(cut_and_joined);
    in_child(shortest_that_serves);
    in_child(a_word_for_each_superslab);
    in_child(not_across_a_border);
    in_child(zeros_are_written);
    in_child(grows_into_slots);
    in_child(makes_room_for_a_slab);
    in_child(goes_with_upkeep_or_the_thread);
    in_child(how_much);
    in_child(slots_go_home);
    in_child(make_way_for_others);
    in_child(not_where_nobody_takes_them);
    in_child(not_beside_many_of_them);
    in_child(goes_with_a_heap_that_is_not_parked);
    in_child(not_what_was_before);
    in_child(upkeep_hears_of_them);
    in_child(less_with_many_threads);
    return CHECK_PASS;
}
