/* SPDX-License-Identifier: MIT
 *
 * Blocks that go straight to their slabs, under the owner's lock: all of them come home once while the slabs change
 * hands and messages are opened; and who finds the lock taken leaves a message instead of waiting.
 */
#include "heap_places.h"

#include <pthread.h>

enum { CLS = 0, GIVERS = 2, ROUNDS = 60, BLOCKS = 3 * 4096, WORDS = BLOCKS / 64 };

static heap_t *self;
static remote_entry_t words[WORDS]; /* whole ones */
static unsigned word_count;
static pthread_barrier_t barrier;
static _Atomic unsigned givers_done;

/* Moves blocks of whole words from the slabs to the program. */
static void take_words(void) {
    word_count = 0;
    heap_lock(self);
    for (slot_t at = self->class_stats[CLS].partial[HEAP_BINS - 1], next; at != 0 && word_count < WORDS; at = next) {
        slab_t *slab = slab_at(at);
        next = slab->next;
        for (unsigned w = 0; w + 1 < slab_word_count(slab) && word_count < WORDS; w++)
            if (slab->free_bits[w] == UINT64_MAX) {
                slab_take_stretch(slab, w * 64, w * 64 + 64);
                words[word_count++] = (remote_entry_t){heap_remote_key(slab_base(slab), w * 64), UINT64_MAX};
            }
        heap_settle_locked(self, slab);
    }
    heap_unlock(self);
}

/* Each giver has every second bit of every word, in an order of its own. */
static void *gives(void *argument) {
    unsigned mine = (unsigned)(uintptr_t)argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        for (unsigned i = 0; i < word_count; i++) {
            const remote_entry_t *word = &words[(i * 7 + mine * 5) % word_count];
            CHECK_EQ(heap_remote_give(&(remote_entry_t){word->key, UINT64_C(0x5555555555555555) << mine}), 0);
        }
        atomic_fetch_add(&givers_done, 1);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* What a thread does that ends, and one that adopts; a block in each slab stays out. */
static void change_hands(void) {
    heap_lock(self);
    heap_hand_over_locked(self);
    heap_unlock(self);
    heap_t *pool = heap_shared();
    heap_lock(self);
    heap_lock(pool);
    heap_drain_locked(pool);
    for (unsigned bin = 0; bin <= HEAP_BINS; bin++) {
        slot_t *head = bin < HEAP_BINS ? &pool->class_stats[CLS].partial[bin] : &pool->full;
        while (*head != 0) {
            slab_t *slab = slab_at(*head);
            heap_remove_locked(pool, slab);
            slab_set_owner(slab, self->front.id);
            heap_insert_locked(self, slab);
        }
    }
    CHECK_EQ(pool->double_frees.count, 0);
    heap_unlock(pool);
    heap_unlock(self);
}

static void all_come_home_once(void) {
    static void *kept[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        kept[i] = magazine_alloc(self, CLS);
    slab_t *last = NULL;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (slab_of(kept[i], CLS) != last)
            last = slab_of(kept[i], CLS);
        else
            push(self, CLS, kept[i]);
    magazine_drop_all(self);
    places_t before = places_of(CLS);
    pthread_t givers[GIVERS];
    CHECK(pthread_barrier_init(&barrier, NULL, GIVERS + 1) == 0);
    for (uintptr_t i = 0; i < GIVERS; i++)
        CHECK(pthread_create(&givers[i], NULL, gives, (void *)i) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        take_words();
        CHECK(word_count > WORDS / 2);
        atomic_store(&givers_done, 0);
        pthread_barrier_wait(&barrier);
        while (atomic_load(&givers_done) < GIVERS)
            change_hands();
        pthread_barrier_wait(&barrier);
        change_hands(); /* what the last of them left in messages */
        change_hands();
        CHECK_EQ(places_of(CLS).in_messages, 0);
        CHECK_EQ(places_of(CLS).in_free_bits, before.in_free_bits);
        CHECK_EQ(self->double_frees.count, 0);
        all_is_well();
    }
    for (unsigned i = 0; i < GIVERS; i++)
        CHECK(pthread_join(givers[i], NULL) == 0);
}

static void *gives_one(void *word) { return heap_remote_give(word) == 0 ? word : NULL; }

static void nobody_waits_for_a_lock(void) {
    void *block = magazine_alloc(self, CLS + 1), *given = NULL;
    remote_entry_t word = heap_remote_word(block, CLS + 1);
    CHECK(map_clear_live(map_granule(block)));
    heap_lock(self);
    pthread_t giver;
    CHECK(pthread_create(&giver, NULL, gives_one, &word) == 0 && pthread_join(giver, &given) == 0);
    CHECK(given == &word);
    CHECK_EQ(places_of(CLS + 1).in_messages, 1);
    CHECK(heap_block_is_free(block, CLS + 1));
    heap_drain_locked(self);
    heap_unlock(self);
    CHECK_EQ(places_of(CLS + 1).in_messages, 0);
    CHECK_EQ(heap_remote_give(&word), word.bits); /* twice */
    all_is_well();
}

int main(void) {
    self = start_heap();
    nobody_waits_for_a_lock();
    all_come_home_once();
    return CHECK_PASS;
}
