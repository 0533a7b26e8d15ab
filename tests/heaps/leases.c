/* SPDX-License-Identifier: MIT
 *
 * What a thread keeps of a heap that it uses again and again (src/heap/lease.h) is nobody's block: statistics and
 * visits do not show it, it goes with the heap, and after a release or the thread's end it is back in its slab. Runs at
 * each level.
 */
#include "testing.h"

#include <sys/wait.h>

enum { BLOCKS = 2000, SIZE = 64, MANY = 100 };

static hak_heap_t *fresh(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    CHECK(heap != NULL);
    return heap;
}

/* Each block has its own number in it. */
static void fill_sized(hak_heap_t *heap, size_t **blocks, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        CHECK((blocks[i] = hak_heap_malloc(heap, size)) != NULL);
        *blocks[i] = i;
    }
}

static void fill(hak_heap_t *heap, size_t **blocks, size_t count) { fill_sized(heap, blocks, count, SIZE); }

static void drop(size_t **blocks, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        CHECK_EQ(*blocks[i], i);
        hak_free(blocks[i]);
    }
}

static bool count_visit(void *block, size_t size, void *count) {
    CHECK(block != NULL && size >= 16);
    return ++*(size_t *)count > 0;
}

static void shows(hak_heap_t *heap, size_t live, size_t allocs) {
    hak_heap_stats_t stats = {.struct_size = sizeof stats};
    size_t visited = 0;
    CHECK_EQ(hak_heap_stats_get(heap, &stats), 0);
    CHECK_EQ(stats.live_blocks, live);
    CHECK_EQ(stats.allocs, allocs);
    CHECK_EQ(hak_heap_visit(heap, count_visit, &visited), 0);
    CHECK_EQ(visited, live);
}

static void counts_are_exact(void) {
    static size_t *blocks[BLOCKS];
    hak_heap_t *heap = fresh();
    for (size_t round = 0; round < 5; round++) {
        fill(heap, blocks, BLOCKS);
        drop(blocks, 0, BLOCKS / 3);
        CHECK(hak_heap_of(blocks[0]) == NULL);
        shows(heap, BLOCKS - BLOCKS / 3, (round + 1) * BLOCKS);
        drop(blocks, BLOCKS / 3, BLOCKS);
        shows(heap, 0, (round + 1) * BLOCKS);
    }
    fill(heap, blocks, MANY);
    size_t usable = hak_malloc_usable_size(blocks[0]);
    drop(blocks, 0, 10);
    CHECK(hak_heap_reset(heap) >= (MANY - 10) * usable && hak_heap_reset(heap) == 0);
    shows(heap, 0, 5 * BLOCKS + MANY);
    fill(heap, blocks, BLOCKS); /* none of them twice */
    drop(blocks, 0, BLOCKS);
    hak_heap_destroy(heap);
}

/* Every class has a place in a lease, down to one block of the largest. */
static void sizes_are_exact(void) {
    static size_t *blocks[BLOCKS];
    hak_heap_t *heap = fresh();
    size_t allocs = 0;
    for (size_t size = 16; size <= 256 * TEST_KIB; size += size / 4) {
        size_t count = size < 4 * TEST_KIB ? MANY : MANY / 5;
        for (size_t round = 0; round < 3; round++) {
            fill_sized(heap, blocks, count, size);
            shows(heap, count, allocs += count);
            drop(blocks, 0, count);
        }
        for (size_t i = 0; i < MANY; i++)
            hak_free(hak_heap_malloc(heap, size));
        shows(heap, 0, allocs += MANY);
    }
    char *zeros = hak_heap_calloc(heap, 1, 3000); /* of blocks that had contents */
    for (size_t i = 0; i < 3000; i++)
        CHECK(zeros[i] == 0);
    hak_free(zeros);
    CHECK_EQ(hak_heap_reset(heap), 0);
    hak_heap_destroy(heap);
}

/* --- With another thread that has the lease ----------------------------------------------------------------------- */

typedef struct other {
    hak_heap_t *heap;
    size_t *blocks[BLOCKS];
    pthread_barrier_t barrier;
} other_t;

/* Holds free blocks, when the heap ends; then frees the rest, or uses the next heap; then ends. */
static void *holds_when_released(void *argument) {
    other_t *other = argument;
    fill(other->heap, other->blocks, BLOCKS);
    drop(other->blocks, 0, BLOCKS / 2 - 5);
    pthread_barrier_wait(&other->barrier);
    drop(other->blocks, BLOCKS / 2 - 5, BLOCKS / 2); /* at this moment */
    pthread_barrier_wait(&other->barrier);
    drop(other->blocks, BLOCKS / 2, BLOCKS);
    return NULL;
}

static uint64_t slabs_of(size_t size, uint64_t *live) {
    static hak_stats_t stats;
    uint64_t slabs = 0;
    (void)hak_trim();
    stats.struct_size = sizeof stats;
    CHECK_EQ(hak_stats_get(&stats), 0);
    for (uint32_t i = 0; i < stats.class_count; i++)
        if (stats.classes[i].block_size >= size && stats.classes[i].block_size < size + 64) {
            slabs += stats.classes[i].slab_count;
            *live += stats.classes[i].live_blocks;
        }
    return slabs;
}

static void released_blocks_go_home(void) {
    static other_t other;
    uint64_t live_before = 0, live_after = 0, before, after = 0;
    pthread_barrier_init(&other.barrier, NULL, 2);
    before = slabs_of(SIZE, &live_before);
    for (unsigned i = 0; i < MANY; i++) {
        other.heap = fresh();
        pthread_t thread = test_thread(holds_when_released, &other);
        pthread_barrier_wait(&other.barrier);
        hak_heap_release(other.heap);
        pthread_barrier_wait(&other.barrier);
        test_join(thread);
    }
    for (test_wait_t wait = test_wait_for(10000); /* heaps of threads that are over are emptied by and by */
         (after = slabs_of(SIZE, &(uint64_t){0})) > before + 1 && test_wait_more(&wait);)
        test_sleep_us(10000);
    (void)slabs_of(SIZE, &live_after);
    CHECK_SAY(after <= before + 1, "%lu slabs, before %lu", (unsigned long)after, (unsigned long)before);
    CHECK_SAY(live_after <= live_before, "%lu live, before %lu", (unsigned long)live_after, (unsigned long)live_before);
    pthread_barrier_destroy(&other.barrier);
}

static void *holds_when_destroyed(void *argument) {
    other_t *other = argument;
    for (unsigned i = 0; i < MANY; i++) {
        pthread_barrier_wait(&other->barrier);
        fill(other->heap, other->blocks, BLOCKS); /* none of the last heap's, nor one twice */
        drop(other->blocks, 0, BLOCKS - 7);
        pthread_barrier_wait(&other->barrier);
    }
    return NULL;
}

static void destroyed_blocks_are_forgotten(void) {
    static other_t other;
    pthread_barrier_init(&other.barrier, NULL, 2);
    pthread_t thread = test_thread(holds_when_destroyed, &other);
    for (unsigned i = 0; i < MANY; i++) {
        other.heap = fresh();
        pthread_barrier_wait(&other.barrier);
        pthread_barrier_wait(&other.barrier);
        hak_heap_destroy(other.heap);
        for (unsigned k = 0; k < MANY; k++) /* ordinary blocks where the slabs were */
            hak_free(hak_malloc(SIZE));
    }
    test_join(thread);
    pthread_barrier_destroy(&other.barrier);
}

static void *takes_and_frees(void *argument) {
    other_t *other = argument;
    fill(other->heap, other->blocks, BLOCKS);
    drop(other->blocks, 0, BLOCKS);
    return NULL;
}

static void ended_threads_keep_nothing(void) {
    static other_t other;
    hak_heap_stats_t stats = {.struct_size = sizeof stats};
    other.heap = fresh();
    for (unsigned i = 0; i < MANY; i++)
        test_join(test_thread(takes_and_frees, &other));
    shows(other.heap, 0, (size_t)MANY * BLOCKS);
    CHECK_EQ(hak_heap_stats_get(other.heap, &stats), 0);
    CHECK_SAY(stats.taken <= 128 * TEST_KIB, "%zu bytes", (size_t)stats.taken); /* a slab may wait */
    hak_heap_destroy(other.heap);
}

/* Has the lease, with no block of the class before the first free. */
static void *frees_what_it_never_asked_for(void *argument) {
    other_t *other = argument;
    for (size_t i = 0; i < MANY; i++)
        hak_free(hak_heap_malloc(other->heap, 3 * SIZE));
    drop(other->blocks, 0, BLOCKS);
    fill(other->heap, other->blocks, BLOCKS); /* none of them twice */
    shows(other->heap, BLOCKS, MANY + 2 * BLOCKS);
    drop(other->blocks, 0, BLOCKS);
    return NULL;
}

static void frees_come_before_allocations(void) {
    static other_t other;
    other.heap = fresh();
    fill(other.heap, other.blocks, BLOCKS);
    test_join(test_thread(frees_what_it_never_asked_for, &other));
    shows(other.heap, 0, MANY + 2 * BLOCKS);
    hak_heap_destroy(other.heap);
}

/* --- Threads that share a heap ------------------------------------------------------------------------------------ */

enum { SHARERS = 4, TURNS = 50, TURN_BLOCKS = BLOCKS / TURNS, PIECE = 8 * TEST_KIB }; /* a cache line of live bits */

typedef struct sharer {
    other_t other;
    pthread_t thread;
} sharer_t;

static sharer_t sharers[SHARERS];
static pthread_barrier_t turn;

/* All take some blocks, and again: what they get lies side by side if nobody cares. */
static void *takes_turns(void *argument) {
    other_t *other = argument;
    for (size_t i = 0; i < TURNS; i++) {
        pthread_barrier_wait(&turn);
        fill(other->heap, other->blocks + i * TURN_BLOCKS, TURN_BLOCKS);
    }
    pthread_barrier_wait(&turn);
    return NULL;
}

static bool is_near_another(const sharer_t *one, const void *block) {
    for (size_t i = 0; i < (size_t)SHARERS * BLOCKS; i++)
        if (one != &sharers[i / BLOCKS] &&
            (uintptr_t)sharers[i / BLOCKS].other.blocks[i % BLOCKS] / PIECE == (uintptr_t)block / PIECE)
            return true;
    return false;
}

static size_t share(hak_heap_t *heap) {
    size_t near = 0;
    pthread_barrier_init(&turn, NULL, SHARERS);
    for (size_t i = 0; i < SHARERS; i++) {
        sharers[i].other.heap = heap;
        sharers[i].thread = test_thread(takes_turns, &sharers[i].other);
    }
    for (size_t i = 0; i < SHARERS; i++)
        test_join(sharers[i].thread);
    for (size_t i = 0; i < (size_t)SHARERS * BLOCKS; i++)
        near += is_near_another(&sharers[i / BLOCKS], sharers[i / BLOCKS].other.blocks[i % BLOCKS]);
    pthread_barrier_destroy(&turn);
    return near;
}

static size_t taken_by(hak_heap_t *heap) {
    hak_heap_stats_t stats = {.struct_size = sizeof stats};
    CHECK_EQ(hak_heap_stats_get(heap, &stats), 0);
    return (size_t)stats.taken;
}

/* Each is served from slabs of its own, but for the first blocks. */
static void sharers_lie_apart(void) {
    hak_heap_t *heap = fresh();
    const char *level = getenv("HAKMEM_SAFE");
    size_t near = share(heap);
    CHECK_SAY(near <= (size_t)SHARERS * BLOCKS / 4 || (level != NULL && level[0] >= '2'),
              "%zu of %d blocks lie near those of another thread", near, SHARERS * BLOCKS);
    hak_heap_destroy(heap);
}

static void *fills_all(void *argument) {
    other_t *other = argument;
    for (size_t i = 0; i < SHARERS; i++)
        fill(other[i].heap, other[i].blocks, BLOCKS);
    return NULL;
}

/* The room that a thread leaves in its slabs serves others when it has ended. */
static void ended_threads_leave_room(void) {
    static other_t others[SHARERS];
    static size_t *blocks[SHARERS * BLOCKS / 4];
    hak_heap_t *heap = fresh();
    for (size_t i = 0; i < SHARERS; i++)
        others[i].heap = heap;
    fill(heap, blocks, MANY); /* a thread of its own, with another id than the next */
    test_join(test_thread(fills_all, others));
    size_t before = taken_by(heap);
    for (size_t i = 0; i < SHARERS * BLOCKS; i += 4)
        hak_free(others[i / BLOCKS].blocks[i % BLOCKS]);
    fill(heap, blocks, SHARERS * BLOCKS / 4);
    CHECK_SAY(taken_by(heap) <= before, "%zu bytes, %zu before", taken_by(heap), before);
    hak_heap_destroy(heap);
}

/* What one thread freed is there for another at once where the heap has a limit. */
static void limits_hold(void) {
    static other_t other;
    hak_heap_options_t options = {.struct_size = sizeof options, .limit = 64 * TEST_KIB};
    hak_heap_t *heap = hak_heap_new(&options);
    size_t count = 0, again = 0;
    while (count < BLOCKS && (other.blocks[count] = hak_heap_malloc(heap, SIZE)) != NULL)
        *other.blocks[count] = count, count++;
    CHECK(count > 100);
    other.heap = heap;
    drop(other.blocks, 0, count);
    while (again < BLOCKS && hak_heap_malloc(heap, SIZE) != NULL)
        again++;
    CHECK_EQ(again, count);
    hak_heap_destroy(heap);
}

static void children_have_them(void) {
    static size_t *blocks[BLOCKS];
    hak_heap_t *heap = fresh();
    fill(heap, blocks, BLOCKS);
    drop(blocks, 0, BLOCKS / 2);
    pid_t child = fork();
    fill(heap, blocks, BLOCKS / 2);
    drop(blocks, 0, BLOCKS);
    shows(heap, 0, BLOCKS + BLOCKS / 2);
    hak_heap_destroy(heap);
    if (child == 0)
        _exit(hak_check() == 0 ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    test_alarm(120);
    counts_are_exact();
    sizes_are_exact();
    released_blocks_go_home();
    destroyed_blocks_are_forgotten();
    ended_threads_keep_nothing();
    frees_come_before_allocations();
    sharers_lie_apart();
    ended_threads_leave_room();
    limits_hold();
    children_have_them();
    CHECK_EQ(hak_check(), 0);
    return TEST_PASS;
}
