/* SPDX-License-Identifier: MIT
 *
 * Blocks above 16 KiB lie alone, in runs, until their thread has asked for the class a few times within a tick, and it
 * is a quarter of what the thread asked for; and as long as such runs are no more than a slab. To the program they are
 * blocks of their class.
 */
#include "heap/slot_cache.h"
#include "heap_places.h"
#include "large/large.h"
#include "slow/sizes.h"

#include <pthread.h>

enum { SIZE = 100000, RARELY = 31, SHORT = 16 * 1024, SOME = 32, FEW = 4 };

static bool is_alone(const void *block) { return map_lookup(block) == HK_MAP_RUN_HEAD; }

/* Comes and goes again and again: rare at first, and again in the next tick, as long as there is no slab. */
static void until_it_is_used_often(void) {
    heap_t *h = start_heap();
    unsigned cls = class_of(SIZE);
    for (unsigned tick = 0; tick < 3; tick++) {
        for (unsigned i = 0; i < RARELY; i++) {
            void *block = heap_malloc_slow(SIZE);
            CHECK(is_alone(block) && h->class_stats[cls].slab_count == 0);
            release(block);
        }
        magazine_tick(h);
    }
    for (unsigned i = 0; i < RARELY; i++)
        release(heap_malloc_slow(SIZE));
    void *block = heap_malloc_slow(SIZE);
    CHECK(!is_alone(block) && h->class_stats[cls].slab_count == 1);
    magazine_tick(h);
    CHECK(!is_alone(heap_malloc_slow(SIZE))); /* a slab is there */
    CHECK(!is_alone(heap_malloc_slow(SHORT)) && is_alone(heap_malloc_slow(SHORT + 1)));
    all_is_well();
}

/* A class whose blocks stay gets slabs as well, once those in runs waste three quarters of one, rounded up to slots; or
 * take one, where they waste more. */
static void no_more_than_a_slab(size_t size, unsigned most) {
    enum { MANY = 400 };
    heap_t *h = start_heap();
    unsigned cls = class_of(size), alone = 0;
    static void *blocks[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        blocks[i] = heap_malloc_slow(size);
        alone += is_alone(blocks[i]);
        magazine_tick(h);
    }
    CHECK_EQ(alone, most);
    CHECK_EQ(alone, large_alone_count(&h->large, cls));
    for (unsigned i = 0; i < MANY; i++)
        release(blocks[i]);
    CHECK_EQ(large_alone_count(&h->large, cls), 0);
    all_is_well();
}

static void some_that_waste_a_fifth(void) { no_more_than_a_slab(SIZE, SOME); }
static void few_that_waste_most(void) { no_more_than_a_slab(SHORT + 1, FEW); }
static void many_that_waste_nothing(void) { no_more_than_a_slab(HK_MID_MAX, LARGE_ALONE_MOST); }

/* Where one block after the other is of another class, no class earns a slab: the heap's slots serve them all. */
static void many_classes_in_turn(void) {
    enum { CLASSES = 32, TURNS = 20 };
    heap_t *h = start_heap();
    release(heap_malloc_slow(HK_MIB - HK_SLOT_SIZE));
    for (unsigned i = 0; i < TURNS * CLASSES; i++) {
        unsigned cls = class_of(SHORT + 1) + i % CLASSES;
        void *block = heap_malloc_slow(hk_class_info[cls].block_size);
        CHECK(is_alone(block) && h->class_stats[cls].slab_count == 0);
        release(block);
    }
    for (unsigned i = 0; i < 300; i++) /* what comes before counts no longer, though there was no tick */
        release(heap_malloc_slow(SIZE));
    CHECK_EQ(h->class_stats[class_of(SIZE)].slab_count, 1);
    all_is_well();
}

/* Temporaries: a few blocks of one class, then a few of another. None is asked for much beside the others. */
static void many_classes_in_bursts(void) {
    enum { CLASSES = 32, TURNS = 1000, BURST = 4 };
    heap_t *h = start_heap();
    uint64_t random = 1;
    for (unsigned i = 0; i < TURNS; i++) {
        const size_t size = hk_class_info[class_of(SHORT + 1) + next_random(&random) % CLASSES].block_size;
        void *blocks[BURST];
        for (unsigned k = 0; k < BURST; k++)
            blocks[k] = heap_malloc_slow(size);
        for (unsigned k = 0; k < BURST; k++)
            release(blocks[k]);
    }
    unsigned earned = 0;
    for (unsigned cls = class_of(SHORT + 1); cls < HK_CLASS_COUNT; cls++)
        earned += h->class_stats[cls].slab_count > 0;
    CHECK_SAY(earned <= 1, "%u classes have slabs", earned);
    all_is_well();
}

/* Four classes by turns are each a quarter of what is asked for. */
static void four_classes_by_turns(void) {
    enum { TURNS = 40 };
    static const size_t sizes[] = {SIZE / 4, SIZE / 2, SIZE, 2 * SIZE};
    heap_t *h = start_heap();
    for (unsigned i = 0; i < 4 * TURNS; i++)
        release(heap_malloc_slow(sizes[i % 4]));
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(h->class_stats[class_of(sizes[i])].slab_count, 1);
    all_is_well();
}

/* A block counts where it was taken, whoever frees it. */
static void freed_by_another(void) {
    heap_t *h = start_heap();
    const unsigned cls = class_of(SIZE);
    static large_counts_t others;
    void *block = heap_malloc_slow(SIZE);
    CHECK(is_alone(block) && large_alone_count(&h->large, cls) == 1);
    CHECK(large_free(&others, block, true));
    CHECK(large_alone_count(&h->large, cls) == 0 && large_alone_count(&others, cls) == 0);
}

/* Beside many runs the heap keeps no slots, and it is the same: a slab for each class would be mostly free. */
static void many_classes_beside_runs(void) {
    enum { CLASSES = 16, TURNS = 20 };
    heap_t *h = start_heap();
    for (unsigned i = 0; i < 10; i++)
        CHECK(heap_malloc_slow(HK_MIB) != NULL);
    magazine_tick(h);
    for (unsigned i = 0; i < TURNS * CLASSES; i++) {
        const unsigned cls = class_of(SHORT + 1) + i % CLASSES;
        void *block = heap_malloc_slow(hk_class_info[cls].block_size);
        CHECK(is_alone(block) && h->class_stats[cls].slab_count == 0);
        release(block);
    }
    CHECK_EQ(slot_cache_bytes(h), 0);
    for (unsigned i = 0; i < 300; i++)
        release(heap_malloc_slow(SIZE));
    CHECK_EQ(h->class_stats[class_of(SIZE)].slab_count, 1);
    all_is_well();
}

static void as_a_block_of_its_class(void) {
    heap_t *h = start_heap();
    const size_t usable = hk_class_info[class_of(SIZE)].block_size;
    char *block = heap_calloc_slow(SIZE);
    CHECK(is_alone(block) && heap_usable_size(block, NULL) == usable);
    for (size_t i = 0; i < SIZE; i++)
        CHECK(block[i] == 0);
    memset(block, 7, usable);
    CHECK(heap_realloc(block, usable, NULL) == block && heap_realloc(block, usable / 2, NULL) == block);
    CHECK(heap_realloc(block, SIZE, NULL) == block && is_alone(block));
    CHECK(heap_expand(block, usable, NULL) == usable && heap_expand(block, 0, NULL) == 0 && is_alone(block));
    heap_free_sized(block, HK_ALIGNMENT, SIZE, "free_sized");
    CHECK_EQ(large_alone_count(&h->large, class_of(SIZE)), 0);
    block = heap_calloc_slow(SIZE); /* the same place, which does not read as zeros */
    for (size_t i = 0; i < SIZE; i++)
        CHECK(block[i] == 0);
    memset(block, 9, SIZE);
    char *longer = heap_realloc(block, HK_MID_MAX + 1, NULL);
    CHECK(longer[0] == 9 && longer[SIZE - 1] == 9 && large_alone_count(&h->large, class_of(SIZE)) == 0);
    CHECK(heap_usable_size(longer, NULL) >= HK_MID_MAX + 1);
    char *shorter = heap_realloc(longer, SIZE, NULL);
    CHECK(shorter[0] == 9 && shorter[SIZE - 1] == 9 && heap_usable_size(shorter, NULL) == usable);
    release(shorter);
    void *aligned = heap_aligned(4096, SIZE);
    CHECK((uintptr_t)aligned % 4096 == 0);
    heap_free_sized(aligned, 4096, SIZE, "free_aligned_sized");
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

static void wrong_sizes_are_found(void) {
    CHECK(setenv("HAKMEM_ON_ERROR", "report", 1) == 0);
    (void)start_heap();
    static const size_t wrong[] = {SIZE / 3, SIZE + SIZE / 4, 2 * SIZE};
    for (unsigned i = 0; i < 3; i++) {
        void *block = heap_malloc_slow(SIZE);
        CHECK(is_alone(block));
        heap_free_sized(block, HK_ALIGNMENT, wrong[i], "free_sized");
        CHECK_EQ(hk_misuse_count(), i + 1);
    }
    all_is_well();
}

static char *grown(char *block, size_t from, size_t size) {
    CHECK_EQ(heap_usable_size(block, NULL), hk_class_info[class_of(from)].block_size);
    block[0] = 1;
    block[from - 1] = 2;
    char *same = heap_realloc(block, size, NULL);
    CHECK(same[0] == 1 && same[from - 1] == 2);
    CHECK_EQ(heap_usable_size(same, NULL), hk_class_info[class_of(size)].block_size);
    memset(same, 3, size);
    return same;
}

/* Within its last slot, and into those of the heap behind it; to the program it is a block of the larger class then. */
static void grows_where_it_is(void) {
    heap_t *h = start_heap();
    release(heap_malloc_slow(HK_MIB));
    const size_t taken = superslab_used_slots(), sizes[] = {20000, 30000, 60000, 100000, 180000, HK_MID_MAX};
    for (unsigned turn = 0; turn < 200; turn++) { /* more often than a class needs that is asked for by itself */
        char *block = heap_malloc_slow(sizes[0]);
        for (unsigned i = 1; i < 6; i++) {
            CHECK(is_alone(block) && grown(block, sizes[i - 1], sizes[i]) == block);
            CHECK_EQ(large_alone_class(block), class_of(sizes[i]));
            CHECK_EQ(large_size(block), hk_align_up(sizes[i], HK_SLOT_SIZE));
            CHECK_EQ(large_live_bytes(&h->large), hk_class_info[class_of(sizes[i])].block_size);
            CHECK_EQ(large_alone_count(&h->large, class_of(sizes[i - 1])), 0);
            CHECK_EQ(large_alone_count(&h->large, class_of(sizes[i])), 1);
        }
        CHECK_EQ(slot_cache_bytes(h), HK_MIB - HK_MID_MAX);
        release(block);
        CHECK(slot_cache_bytes(h) == HK_MIB && large_live_bytes(&h->large) == 0);
    }
    for (unsigned i = 0; i < 6; i++)
        CHECK(h->class_stats[class_of(sizes[i])].slab_count == 0);
    CHECK_EQ(superslab_used_slots(), taken);
    char *block = heap_malloc_slow(sizes[0]);
    CHECK_EQ(heap_expand(block, sizes[1], NULL), hk_class_info[class_of(sizes[1])].block_size);
    CHECK_EQ(heap_expand(block, sizes[3], NULL), hk_class_info[class_of(sizes[3])].block_size);
    CHECK(large_alone_class(block) == class_of(sizes[3]) && large_size(block) == 2 * HK_SLOT_SIZE);
    release(block);
    CHECK_EQ(large_alone_count(&h->large, class_of(sizes[3])), 0);
    all_is_well();
}

/* To a class that is no multiple of its alignment, by which its size is checked when it is freed. */
static void one_with_an_alignment(void) {
    (void)start_heap();
    unsigned stayed = 0;
    release(heap_malloc_slow(HK_MIB));
    for (size_t align = 4096; align <= 16384; align *= 2)
        for (size_t size = 17000; size < 190000; size += 3001) {
            char *block = heap_aligned(align, size);
            const bool grew = heap_expand(block, size + size / 3, NULL) != 0;
            stayed += grew;
            CHECK_EQ((uintptr_t)block % align, 0);
            heap_free_sized(block, align, grew ? size + size / 3 : size, "free_aligned_sized");
        }
    CHECK(stayed > 20 && hk_misuse_count() == 0);
    all_is_well();
}

/* Where something lies behind it, it moves, and the heap's slots stay where they are. */
static void moves_where_something_is_behind(void) {
    heap_t *h = start_heap();
    release(heap_malloc_slow(HK_MIB));
    char *block = heap_malloc_slow(60000), *behind = heap_malloc_slow(60000);
    CHECK(behind == block + HK_SLOT_SIZE);
    char *moved = grown(block, 60000, 100000);
    CHECK(moved == behind + HK_SLOT_SIZE && slot_cache_bytes(h) == HK_MIB - 3 * HK_SLOT_SIZE);
    CHECK_EQ(heap_expand(behind, 100000, NULL), 0);
    release(moved);
    release(behind);
    CHECK_EQ(slot_cache_bytes(h), HK_MIB);
    all_is_well();
}

/* So many of the larger class as may lie alone; the next ones move to a slab. */
static void no_more_than_may_lie_alone(void) {
    enum { MANY = 10, FROM = SHORT + 1, TO = 22000 };
    heap_t *h = start_heap();
    char *blocks[MANY];
    CHECK(class_of(TO) > class_of(FROM) + 1);
    for (unsigned i = 0; i < MANY; i++) {
        blocks[i] = heap_malloc_slow(FROM);
        magazine_tick(h); /* no class is used often */
        blocks[i] = grown(blocks[i], FROM, TO);
        CHECK(large_alone_count(&h->large, class_of(FROM)) == 0);
        magazine_tick(h);
    }
    const unsigned alone = large_alone_count(&h->large, class_of(TO));
    CHECK(alone >= 4 && alone < MANY && h->class_stats[class_of(TO)].slab_count > 0);
    for (unsigned i = 0; i < MANY; i++)
        CHECK_EQ(is_alone(blocks[i]), i < alone);
    for (unsigned i = 0; i < MANY; i++)
        release(blocks[i]);
    CHECK_EQ(large_live_bytes(&h->large), 0);
    all_is_well();
}

/* That of another thread's heap does not, as its counts are that thread's. */
static void *grows_it(void *block) { return grown(block, 20000, 30000); }

static void not_that_of_another_heap(void) {
    heap_t *h = start_heap();
    char *block = heap_malloc_slow(20000);
    pthread_t thread;
    void *moved;
    CHECK(pthread_create(&thread, NULL, grows_it, block) == 0 && pthread_join(thread, &moved) == 0);
    CHECK(moved != block && large_alone_count(&h->large, class_of(20000)) == 0);
    release(moved);
    all_is_well();
}

int main(void) {
    in_child(until_it_is_used_often);
    in_child(some_that_waste_a_fifth);
    in_child(few_that_waste_most);
    in_child(many_that_waste_nothing);
    in_child(many_classes_in_turn);
    in_child(many_classes_in_bursts);
    in_child(four_classes_by_turns);
    in_child(freed_by_another);
    in_child(many_classes_beside_runs);
    in_child(as_a_block_of_its_class);
    in_child(wrong_sizes_are_found);
    in_child(grows_where_it_is);
    in_child(one_with_an_alignment);
    in_child(moves_where_something_is_behind);
    in_child(no_more_than_may_lie_alone);
    in_child(not_that_of_another_heap);
    return CHECK_PASS;
}
