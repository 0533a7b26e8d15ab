/* SPDX-License-Identifier: MIT
 *
 * Moments that a lock makes long enough to look at: what comes to a heap while it is handed over goes on to the pool,
 * and a heap that one thread empties is no other's to empty.
 */
#include "heap/messages.h"
#include "heap_places.h"

#include <pthread.h>

enum { CLS = 20, LOCK_WAITED_FOR = 2, WAIT_MS = 60000 };

static heap_t *ending;
static void *first, *late;
static pthread_barrier_t barrier;

static void until_somebody_waits(const hk_lock_t *lock) {
    for (unsigned ms = 0; atomic_load(&lock->word) != LOCK_WAITED_FOR; ms++) {
        CHECK(ms < WAIT_MS);
        usleep(1000);
    }
}

static void *hands_over(void *unused) {
    ending = heap_current();
    first = magazine_alloc(ending, CLS);
    late = magazine_alloc(ending, CLS + 1);
    CHECK(first != NULL && late != NULL);
    magazine_drop_all(ending);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    heap_lock(ending);
    heap_hand_over_locked(ending);
    heap_unlock(ending);
    CHECK(atomic_load(&ending->inbox) == NULL);
    return unused;
}

/* It waits for the pool's lock with its first slab, when a free of a block of the second one comes. */
static void comes_while_handed_over(void) {
    pthread_t thread;
    (void)start_heap();
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, hands_over, NULL) == 0);
    pthread_barrier_wait(&barrier);
    heap_lock(heap_shared());
    pthread_barrier_wait(&barrier);
    until_somebody_waits(&heap_shared()->lock);
    const remote_entry_t word = heap_remote_word(late, CLS + 1);
    CHECK(map_clear_live_shared(map_granule(late)));
    CHECK(message_send_alone(ending->front.id, &word));
    heap_unlock(heap_shared());
    CHECK(pthread_join(thread, NULL) == 0);
    heap_lock(heap_shared());
    heap_drain_locked(heap_shared());
    heap_unlock(heap_shared());
    CHECK_EQ(places_of(CLS + 1).in_messages, 0);
    CHECK_EQ(live_blocks(CLS + 1), 0);
    all_is_well();
}

static void *stays(void *unused) {
    ending = heap_current();
    first = magazine_alloc(ending, CLS);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *adopts(void *unused) {
    heap_adopt_orphan();
    return unused;
}

static void emptied_by_one(void) {
    pthread_t thread, adopter;
    (void)start_heap();
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, stays, NULL) == 0);
    pthread_barrier_wait(&barrier);
    heap_orphan_others(HEAP_ORPHANS_ALL);
    CHECK_EQ(atomic_load(&ending->life), HEAP_ORPHAN);
    heap_lock(ending);
    CHECK(pthread_create(&adopter, NULL, adopts, NULL) == 0);
    until_somebody_waits(&ending->lock);
    CHECK_EQ(atomic_load(&ending->life), HEAP_RETIRING);
    heap_adopt_orphan(); /* returns at once: there is none any more */
    heap_unlock(ending);
    CHECK(pthread_join(adopter, NULL) == 0);
    CHECK_EQ(atomic_load(&ending->life), HEAP_UNUSED);
    all_is_well();
}

int main(void) {
    in_child(comes_while_handed_over);
    in_child(emptied_by_one);
    return CHECK_PASS;
}
