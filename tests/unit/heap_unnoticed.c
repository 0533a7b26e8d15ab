/* SPDX-License-Identifier: MIT
 *
 * Heaps of threads whose end nobody tells, as no thread-specific key is left: they are emptied when the kernel has the
 * thread no more, by a thread that starts or by who looks after memory; also when the thread's number is used again.
 * Those of threads that exist are not, nor those of a number that is of another process.
 */
#include "upkeep/unnoticed.h"
#include "heap_places.h"
#include "sys/sys.h"

#include <pthread.h>

enum { CLS = 2, BLOCKS = 300 };

static heap_t *main_heap, *worker_heap, *ended_heap;
static pthread_barrier_t barrier;

static unsigned life_of(const heap_t *h) { return atomic_load(&h->life); }
static uint64_t own_number(void) { return (uint64_t)sys_process_id() << 32 | sys_thread_id(); }

static void *works(void *unused) {
    void *blocks[BLOCKS];
    worker_heap = heap_current();
    CHECK(worker_heap != NULL && worker_heap != main_heap && atomic_load(&worker_heap->thread) == own_number());
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = magazine_alloc(worker_heap, CLS);
    for (unsigned i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    return unused;
}

static void run(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* pthread_join returns when the kernel says that the stack is free: some microseconds before the thread is out of its
 * lists. */
static void wait_for_end_of(const heap_t *h) {
    for (unsigned i = 0; i < 5000 && !sys_thread_is_gone((uint32_t)atomic_load(&h->thread)); i++)
        usleep(1000);
    CHECK(sys_thread_is_gone((uint32_t)atomic_load(&h->thread)));
}

static void after_its_thread(void) {
    run(works, NULL);
    CHECK_EQ(life_of(worker_heap), HEAP_LIVE);
    CHECK(bin_count(worker_heap, CLS) > 0);
    wait_for_end_of(worker_heap);
    unnoticed_end_gone();
    CHECK_EQ(life_of(worker_heap), HEAP_UNUSED);
    CHECK_EQ(atomic_load(&worker_heap->thread), 0);
    CHECK_EQ(bin_count(worker_heap, CLS), 0);
    CHECK_EQ(heap_live_count(), 1);
    CHECK_EQ(life_of(main_heap), HEAP_LIVE);
    all_is_well();
}

/* The next thread finds it, and has its record. */
static void by_the_next_thread(void) {
    heap_t *first = worker_heap;
    run(works, NULL);
    wait_for_end_of(worker_heap);
    run(works, NULL);
    CHECK(worker_heap == first && heap_live_count() == 2);
    wait_for_end_of(worker_heap);
    unnoticed_end_gone();
    CHECK_EQ(heap_live_count(), 1);
    all_is_well();
}

static void *has_the_number(void *unused) {
    atomic_store(&ended_heap->thread, own_number());
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    works(NULL);
    CHECK(worker_heap != ended_heap && life_of(ended_heap) == HEAP_UNUSED);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void a_number_used_again(void) {
    pthread_t thread;
    run(works, NULL);
    ended_heap = worker_heap;
    CHECK(pthread_create(&thread, NULL, has_the_number, NULL) == 0);
    pthread_barrier_wait(&barrier);
    unnoticed_end_gone();
    CHECK_EQ(life_of(ended_heap), HEAP_LIVE);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    unnoticed_end_gone(); /* the thread exists */
    CHECK_EQ(life_of(worker_heap), HEAP_LIVE);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    wait_for_end_of(worker_heap);
    unnoticed_end_gone();
    CHECK_EQ(heap_live_count(), 1);
    all_is_well();
}

static void of_another_process(void) {
    uint64_t number = atomic_load(&main_heap->thread);
    CHECK(number == own_number());
    atomic_store(&main_heap->thread, ((number >> 32) + 1) << 32 | 0x7fffffff);
    unnoticed_end_gone();
    CHECK_EQ(life_of(main_heap), HEAP_LIVE);
    atomic_store(&main_heap->thread, (number >> 32) << 32 | 0x7fffffff); /* the same in this one */
    CHECK(sys_thread_is_gone(0x7fffffff));
    atomic_store(&main_heap->thread, number);
}

static void in_the_child(void) {
    CHECK(atomic_load(&main_heap->thread) == own_number());
    unnoticed_end_gone();
    CHECK_EQ(life_of(main_heap), HEAP_LIVE);
    after_its_thread();
}

/* The kernel keeps the main thread in its lists while another one runs. */
static void *outlives_main(void *unused) {
    for (unsigned i = 0; i < 5000 && life_of(main_heap) != HEAP_UNUSED; i++, usleep(1000))
        unnoticed_end_gone();
    CHECK_EQ(life_of(main_heap), HEAP_UNUSED);
    _exit(CHECK_PASS);
    return unused;
}

static bool is_not(const heap_t *unused) { return unused == NULL; }
static bool is(const heap_t *unused) { return unused != NULL; }

/* Whoever claims it has asked under the lock, and is the only one. */
static void claimed_once(void) {
    run(works, NULL);
    heap_t *h = worker_heap;
    CHECK(!heap_claim_gone(h, is_not));
    CHECK_EQ(life_of(h), HEAP_LIVE);
    CHECK(heap_claim_gone(h, is));
    CHECK_EQ(life_of(h), HEAP_RETIRING);
    CHECK(!heap_claim_gone(h, is));
    heap_retire_gone(h);
    CHECK_EQ(life_of(h), HEAP_UNUSED);
}

static void main_ends(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, outlives_main, NULL) == 0);
    pthread_exit(NULL);
}

int main(void) {
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0)
        continue;
    main_heap = start_heap();
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    after_its_thread();
    by_the_next_thread();
    a_number_used_again();
    of_another_process();
    in_child(claimed_once);
    in_child(in_the_child);
    if (!HK_TSAN) /* for which the main thread's end is the program's */
        in_child(main_ends);
    CHECK_EQ(life_of(main_heap), HEAP_LIVE);
    return CHECK_PASS;
}
