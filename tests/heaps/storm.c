/* SPDX-License-Identifier: MIT
 *
 * storm [SECONDS [THREADS [HEAPS]]]: threads allocate in heaps that others make, free each other's blocks, and reset,
 * destroy, release and make the heaps anew all the time. No block may be damaged or lost, and the heap must be whole in
 * the end. (What microsoft/mimalloc#1231 and #1250 met: many threads that destroy and make heaps, a heap destroyed
 * behind a resource.)
 *
 * Who resets or destroys a heap waits until nobody is in it; a release does not wait.
 */
#include "testing.h"

#include <stdatomic.h>

enum { BLOCKS = 64, THREADS_MAX = 64, HEAPS_MAX = 2000, VISIT_MAX = 100 };

/* A block says where it is and how large, and is filled with its own pattern. */
typedef struct head {
    size_t size;
    uint64_t seed;
} head_t;

typedef struct place {
    pthread_rwlock_t lock; /* read: in the heap; written: its end */
    hak_heap_t *heap;
    _Atomic(head_t *) blocks[BLOCKS];
} place_t;

static place_t places[HEAPS_MAX];
static size_t heaps;
static atomic_bool over;
static atomic_size_t turns;

static size_t random_size(uint64_t *random) {
    size_t most = test_random_below(random, 200) == 0 ? 600 * TEST_KIB
                  : test_random_below(random, 8) == 0 ? 20000
                                                      : 400;
    return sizeof(head_t) + test_random_below(random, most);
}

static head_t *write_to(void *memory, size_t size, uint64_t seed) {
    head_t *head = memory;
    CHECK(head != NULL);
    *head = (head_t){size, seed};
    test_fill(head + 1, size - sizeof *head, seed);
    return head;
}

static head_t *make(hak_heap_t *heap, uint64_t *random) {
    size_t size = random_size(random);
    void *block = test_random_below(random, 4) == 0 ? hak_heap_calloc(heap, 1, size) : hak_heap_malloc(heap, size);
    return write_to(block, size, test_random(random));
}

static void is_whole(const head_t *head) {
    CHECK(head->size >= sizeof *head && test_holds(head + 1, head->size - sizeof *head, head->seed));
}

static void drop(head_t *head) {
    if (head == NULL)
        return;
    is_whole(head);
    hak_free(head);
}

/* A block comes and one goes; a few change their size, also by the ordinary name. */
static void use(place_t *place, uint64_t *random) {
    _Atomic(head_t *) *slot = &place->blocks[test_random_below(random, BLOCKS)];
    head_t *old = atomic_exchange(slot, NULL);
    if (old != NULL && test_random_below(random, 4) == 0) {
        is_whole(old);
        size_t size = random_size(random);
        head_t *moved =
            test_random_below(random, 2) == 0 ? hak_realloc(old, size) : hak_heap_realloc(place->heap, old, size);
        old = write_to(moved, size, test_random(random));
    } else {
        drop(old);
        old = make(place->heap, random);
    }
    drop(atomic_exchange(slot, old));
}

static bool visit(void *block, size_t size, void *count) {
    (void)block, (void)size;
    return ++*(int *)count < VISIT_MAX;
}

static void end_blocks(place_t *place) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        head_t *head = atomic_exchange(&place->blocks[i], NULL);
        if (head != NULL)
            is_whole(head);
    }
}

static hak_heap_t *make_heap(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    CHECK(heap != NULL);
    return heap;
}

/* After a release some blocks of the place are ordinary ones: they go first. */
static void end_heap(place_t *place, uint64_t *random) {
    pthread_rwlock_wrlock(&place->lock);
    for (unsigned i = 0; i < BLOCKS; i++) {
        head_t *head = atomic_load(&place->blocks[i]);
        if (head != NULL && hak_heap_of(head) != place->heap)
            drop(atomic_exchange(&place->blocks[i], NULL));
    }
    end_blocks(place);
    if (test_random_below(random, 3) == 0) {
        hak_heap_reset(place->heap);
    } else {
        hak_heap_destroy(place->heap);
        place->heap = make_heap();
    }
    pthread_rwlock_unlock(&place->lock);
}

static void release_heap(place_t *place) {
    pthread_rwlock_wrlock(&place->lock);
    hak_heap_t *old = place->heap;
    place->heap = make_heap();
    pthread_rwlock_unlock(&place->lock);
    hak_heap_release(old); /* others free its blocks meanwhile */
}

static void look_at_heap(place_t *place) {
    hak_heap_stats_t stats = {.struct_size = sizeof stats};
    int count = 0;
    CHECK_EQ(hak_heap_stats_get(place->heap, &stats), 0);
    CHECK(stats.live <= stats.taken);
    (void)hak_heap_visit(place->heap, visit, &count);
}

static void *run(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument;
    void *own[16] = {NULL}; /* ordinary blocks beside */
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        place_t *place = &places[test_random_below(&random, heaps)];
        size_t kind = test_random_below(&random, 100);
        if (kind == 0)
            end_heap(place, &random);
        else if (kind == 1)
            release_heap(place);
        pthread_rwlock_rdlock(&place->lock);
        for (unsigned i = 0; i < 20; i++)
            use(place, &random);
        if (kind == 2)
            look_at_heap(place);
        pthread_rwlock_unlock(&place->lock);
        void **mine = &own[test_random_below(&random, 16)];
        hak_free(*mine);
        *mine = hak_malloc(test_random_below(&random, 3000));
        atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
    }
    hak_free_batch(own, 16);
    return NULL;
}

/* Threads come and go: a heap is nobody's. */
static void *runs(void *argument) {
    uintptr_t seed = (uintptr_t)argument;
    pthread_t thread = test_thread(run, (void *)(seed * 7919 + 1));
    test_join(thread);
    return NULL;
}

int main(int count, char **arguments) {
    unsigned seconds = count > 1 ? (unsigned)atoi(arguments[1]) : 3;
    unsigned threads = count > 2 ? (unsigned)atoi(arguments[2]) : 6;
    heaps = count > 3 ? (size_t)atoi(arguments[3]) : 50;
    CHECK(threads <= THREADS_MAX && heaps <= HEAPS_MAX);
    test_alarm(seconds + 60);
    uint64_t before = 0, after = 0, random = 3;
    hak_free(hak_malloc(100));
    CHECK_EQ(hak_stat_read("live", &before), 0);
    for (size_t i = 0; i < heaps; i++) {
        CHECK(pthread_rwlock_init(&places[i].lock, NULL) == 0);
        places[i].heap = make_heap();
    }
    pthread_t running[THREADS_MAX];
    for (unsigned i = 0; i < threads; i++)
        running[i] = test_thread(runs, (void *)(uintptr_t)(i + 1));
    for (uint64_t end = test_now_ns() + seconds * UINT64_C(1000000000); test_now_ns() < end;) {
        test_sleep_us(200000);
        CHECK_EQ(hak_check(), 0);
        if (test_random_below(&random, 4) == 0)
            (void)hak_trim();
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < threads; i++)
        test_join(running[i]);
    for (size_t i = 0; i < heaps; i++) {
        end_heap(&places[i], &random);
        hak_heap_destroy(places[i].heap);
    }
    CHECK_EQ(hak_check(), 0);
    (void)hak_trim();
    CHECK_EQ(hak_stat_read("live", &after), 0);
    CHECK_SAY(after <= before + 4096, "%llu bytes live, %llu before", (unsigned long long)after,
              (unsigned long long)before);
    test_say("%zu turns of %u threads in %zu heaps\n", atomic_load(&turns), threads, heaps);
    return TEST_PASS;
}
