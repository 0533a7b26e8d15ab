/* SPDX-License-Identifier: MIT
 *
 * What a thread frees of long blocks stays with its heap as one stretch of slots, from which the next ones are cut,
 * whatever their length; and goes to the pool when the thread rests, ends, or has many such blocks.
 */
#include "heap/lists.h"
#include "heap/stretch.h"
#include "heap/supply.h"
#include "heap_places.h"
#include "large/large.h"
#include "slow/sizes.h"
#include "superslab/superslab.h"
#include "upkeep/round.h"

#include <pthread.h>

static const size_t LONGEST = (size_t)STRETCH_MAX * HK_SLOT_SIZE;

static size_t taken_slots(void) { return superslab_used_slots(); }

static heap_t *start_with_stretch(void) {
    heap_t *h = start_heap();
    release(heap_malloc_slow(LONGEST));
    CHECK_EQ(stretch_bytes(h), LONGEST);
    return h;
}

/* From its end, and back to it: the pool has no part in it. */
static void cut_and_joined(void) {
    heap_t *h = start_with_stretch();
    const size_t taken = taken_slots();
    for (size_t size = HK_MID_MAX + 1; size <= LONGEST - 7 * HK_SLOT_SIZE; size += 50000) {
        char *block = heap_malloc_slow(size);
        CHECK(large_is_live(block) && large_size(block) == hk_align_up(size, HK_SLOT_SIZE));
        CHECK_EQ(stretch_bytes(h) + large_size(block), LONGEST);
        memset(block, 7, size);
        char *second = heap_malloc_slow(100000), *third = heap_malloc_slow(HK_MID_MAX + 1);
        CHECK(third != block && second != block);
        release(third);
        release(second);
        release(block);
        all_is_well();
        magazine_tick(h); /* no class is used often */
    }
    CHECK_EQ(stretch_bytes(h), LONGEST);
    CHECK_EQ(taken_slots(), taken);
}

/* Apart from each other, the longer one stays. Beside each other they become one, whichever comes first. */
static void of_two_the_longer(void) {
    heap_t *h = start_with_stretch();
    char *low = heap_malloc_slow(5 * HK_SLOT_SIZE), *between = heap_malloc_slow(6 * HK_SLOT_SIZE),
         *high = heap_malloc_slow(5 * HK_SLOT_SIZE);
    CHECK_EQ(stretch_bytes(h), 0);
    CHECK(high + 5 * HK_SLOT_SIZE == between && between + 6 * HK_SLOT_SIZE == low);
    release(low);
    CHECK_EQ(stretch_bytes(h), 5 * HK_SLOT_SIZE);
    const size_t taken = taken_slots();
    release(high); /* as long, and last: it stays, and the other goes */
    CHECK_EQ(stretch_bytes(h), 5 * HK_SLOT_SIZE);
    CHECK_EQ(taken_slots(), taken - 5);
    release(between); /* behind the stretch */
    CHECK_EQ(stretch_bytes(h), 11 * HK_SLOT_SIZE);
    char *all = heap_malloc_slow(11 * HK_SLOT_SIZE), *other = heap_malloc_slow(5 * HK_SLOT_SIZE);
    CHECK(all == high);
    release(other);
    CHECK_EQ(stretch_bytes(h), 5 * HK_SLOT_SIZE);
    CHECK(other == low);
    release(all); /* in front of the stretch */
    CHECK_EQ(stretch_bytes(h), LONGEST);
    all_is_well();
}

/* What was free memory before does not read as zeros. */
static void zeros_are_written(void) {
    heap_t *h = start_with_stretch();
    char *block = heap_malloc_slow(LONGEST);
    memset(block, 7, LONGEST);
    release(block);
    for (size_t size = 100000; size <= LONGEST; size += 150000) {
        block = heap_calloc_slow(size);
        CHECK(stretch_bytes(h) < LONGEST && all_zeros(block, size));
        memset(block, 7, size);
        release(block);
    }
    all_is_well();
}

/* A block that grows has the slots behind it, whether the pool has them or the heap. */
static void makes_way(void) {
    heap_t *h = start_with_stretch();
    char *high = heap_malloc_slow(8 * HK_SLOT_SIZE), *low = heap_malloc_slow(8 * HK_SLOT_SIZE);
    CHECK(low + 8 * HK_SLOT_SIZE == high);
    release(high);
    CHECK_EQ(stretch_bytes(h), 8 * HK_SLOT_SIZE);
    low[0] = 5;
    CHECK(heap_realloc(low, 12 * HK_SLOT_SIZE, NULL) == low && low[0] == 5);
    CHECK_EQ(stretch_bytes(h), 0);
    release(low);
    CHECK_EQ(stretch_bytes(h), 12 * HK_SLOT_SIZE);
    high = heap_malloc_slow(6 * HK_SLOT_SIZE), low = heap_malloc_slow(6 * HK_SLOT_SIZE);
    release(high);
    CHECK_EQ(heap_expand(low, 7 * HK_SLOT_SIZE, NULL), 7 * HK_SLOT_SIZE);
    CHECK_EQ(stretch_bytes(h), 0);
    release(low);
    CHECK_EQ(stretch_bytes(h), 7 * HK_SLOT_SIZE);
    high = heap_malloc_slow(3 * HK_SLOT_SIZE), low = heap_malloc_slow(4 * HK_SLOT_SIZE - HK_SLOT_SIZE / 2); /* alone */
    CHECK(large_alone_class(low) < HK_CLASS_COUNT && low + 4 * HK_SLOT_SIZE == high);
    release(high);
    CHECK(heap_realloc(low, 5 * HK_SLOT_SIZE, NULL) == low && stretch_bytes(h) == 0);
    release(low);
    all_is_well();
}

/* A slab that a class has earned takes its place. */
static void makes_room_for_a_slab(void) {
    heap_t *h = start_with_stretch();
    for (unsigned i = 0; i < 20 && h->class_stats[class_of(100000)].slab_count == 0; i++) {
        CHECK(stretch_bytes(h) > 0);
        release(heap_malloc_slow(100000));
    }
    CHECK(h->class_stats[class_of(100000)].slab_count == 1 && stretch_bytes(h) == 0);
    all_is_well();
}

static void *ends(void *unused) {
    (void)unused;
    heap_t *h = heap_current();
    release(heap_malloc_slow(LONGEST));
    CHECK_EQ(stretch_bytes(h), LONGEST);
    return h;
}

static void goes_when_the_thread_rests_or_ends(void) {
    CHECK(setenv("HAKMEM_BACKGROUND", "off", 1) == 0 && setenv("HAKMEM_PURGE_DELAY", "3600000", 1) == 0);
    heap_t *h = heap_current();
    release(heap_malloc_slow(LONGEST));
    CHECK_EQ(stretch_bytes(h), LONGEST);
    const size_t taken = taken_slots();
    CHECK(upkeep_waits() && heap_trim() >= LONGEST);
    CHECK_EQ(stretch_bytes(h), 0);
    CHECK_EQ(taken_slots(), taken - STRETCH_MAX);
    release(heap_malloc_slow(LONGEST - HK_SLOT_SIZE));
    (void)upkeep_round();
    CHECK_EQ(stretch_bytes(h), LONGEST - HK_SLOT_SIZE);
    CHECK(!upkeep_waits());
    (void)upkeep_round();
    CHECK_EQ(stretch_bytes(h), 0);
    pthread_t thread;
    void *ended;
    CHECK_EQ(pthread_create(&thread, NULL, ends, NULL), 0);
    CHECK_EQ(pthread_join(thread, &ended), 0);
    heap_retire_parked(UINT64_MAX);
    CHECK(ended != h && stretch_bytes(ended) == 0);
    (void)heap_trim();
    CHECK_EQ(taken_slots(), taken - STRETCH_MAX);
    all_is_well();
}

/* Beside many long blocks it counts where one lies; and of what others allocate a thread keeps nothing. */
static void not_beside_many_and_not_of_others(void) {
    enum { MANY = 9 };
    heap_t *h = start_heap();
    void *blocks[MANY];
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = heap_malloc_slow(LONGEST - HK_SLOT_SIZE);
    for (unsigned i = 0; i < MANY; i++) {
        release(blocks[i]);
        CHECK_EQ(stretch_bytes(h) > 0, (MANY - i) * (LONGEST - HK_SLOT_SIZE) <= 4 * HK_MIB);
    }
    (void)heap_trim();
    for (unsigned i = 0; i < 100; i++) /* what is taken by others, and freed here */
        release(large_alloc(&heap_shared()->large, LONGEST, 1, NULL));
    CHECK_EQ(stretch_bytes(h), LONGEST);
    (void)heap_trim();
    release(large_alloc(&heap_shared()->large, LONGEST, 1, NULL));
    CHECK_EQ(stretch_bytes(h), 0);
    all_is_well();
}

int main(void) {
    in_child(cut_and_joined);
    in_child(of_two_the_longer);
    in_child(zeros_are_written);
    in_child(makes_way);
    in_child(makes_room_for_a_slab);
    in_child(goes_when_the_thread_rests_or_ends);
    in_child(not_beside_many_and_not_of_others);
    return CHECK_PASS;
}
