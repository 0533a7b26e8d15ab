/* SPDX-License-Identifier: MIT
 *
 * Messages of remote frees where it is not the plain case: a slab that changed its owner meanwhile, more owners than the outbox
 * has places, a crowd, words of blocks freed twice, of a slab that is gone, and of one that is smaller by now.
 */
#include "heap/messages.h"
#include "heap_places.h"
#include "map/meta.h"

#include <pthread.h>
#include <unistd.h>

enum { CLS = 25, SOME = HEAP_OUTBOX + 4, CROWD = 40 };

static heap_t *self;
static pthread_barrier_t all_have, all_done;
static char *blocks[CROWD];

static remote_entry_t word_of(const char *block) {
    unsigned index = class_block_index(&hk_classes[CLS], block);
    return (remote_entry_t){heap_remote_key(slab_base(slab_of(block, CLS)), index), UINT64_C(1) << (index % 64)};
}

static unsigned open_all(heap_t *h, unsigned *doubled) {
    heap_lock(h);
    unsigned count = messages_open_locked(h, doubled);
    heap_unlock(h);
    return count;
}

/* The word follows its slab: to the pool here, by the slab's remote bits. */
static void slab_elsewhere(void) {
    char *block = magazine_alloc(self, CLS);
    remote_entry_t word = word_of(block);
    CHECK(map_clear_live(map_granule(block)));
    CHECK(message_add(self, &word));
    messages_send(self);
    heap_lock(self);
    heap_hand_over_locked(self);
    heap_unlock(self);
    slab_t *slab = slab_of(block, CLS);
    CHECK_EQ(atomic_load(&slab->owner), HK_OWNER_POOL);
    /* The first drain of the handing over brought it home; one that comes later is passed on. */
    CHECK_EQ(places_of(CLS).in_messages, 0);
    char *late = heap_take_one(heap_pool(), CLS, &(block_past_t){BLOCK_USED});
    word = word_of(late);
    message_t *message = meta_alloc(sizeof *message);
    *message = (message_t){.to = self->front.id, .count = 1, .words = {word}};
    atomic_store(&self->inbox, message);
    unsigned doubled = 0;
    CHECK_EQ(open_all(self, &doubled), 1);
    CHECK_EQ(doubled, 0);
    CHECK_EQ(places_of(CLS).in_remote_bits, 1);
    CHECK_EQ(atomic_load(&heap_pool()->remote_head), slab_slot(slab_of(late, CLS)));
    heap_lock(heap_pool());
    heap_drain_locked(heap_pool());
    heap_unlock(heap_pool());
    CHECK_EQ(places_of(CLS).in_remote_bits, 0);
    magazine_drop_all(self); /* of the pool's blocks */
}

/* A class of its own for each, so that no heap takes another's slab. */
static unsigned class_at(char **place) { return CLS + (unsigned)(place - blocks); }

static places_t places_of_all(void) {
    places_t sum = {0};
    for (unsigned i = 0; i < CROWD; i++) {
        places_t p = places_of(CLS + i);
        sum.in_messages += p.in_messages;
        sum.in_remote_bits += p.in_remote_bits;
    }
    return sum;
}

static void *owns(void *place) {
    heap_t *h = heap_current();
    *(char **)place = magazine_alloc(h, class_at((char **)place));
    pthread_barrier_wait(&all_have);
    pthread_barrier_wait(&all_done);
    unsigned doubled = 0;
    (void)open_all(h, &doubled);
    CHECK_EQ(doubled, 0);
    return NULL;
}

/* Every owner gets its block back, by a message or, where another has the place or in a crowd, by the slab. Returns whether it was
 * a crowd. */
static bool many_owners(unsigned owners) {
    pthread_t threads[CROWD];
    CHECK(pthread_barrier_init(&all_have, NULL, owners + 1) == 0);
    CHECK(pthread_barrier_init(&all_done, NULL, owners + 1) == 0);
    for (unsigned i = 0; i < owners; i++)
        CHECK(pthread_create(&threads[i], NULL, owns, &blocks[i]) == 0);
    pthread_barrier_wait(&all_have);
    for (unsigned i = 0; i < owners; i++)
        release(blocks[i]);
    heap_remote_post_all(self);
    places_t p = places_of_all();
    CHECK_EQ(p.in_messages + p.in_remote_bits, owners);
    bool crowded = heap_is_crowded();
    CHECK_EQ(p.in_messages, crowded ? 0 : HEAP_OUTBOX);
    for (unsigned i = 0; i < HEAP_OUTBOX; i++)
        CHECK(self->outbox[i] == NULL);
    for (unsigned i = 0; i < owners; i++)
        CHECK(heap_block_is_free(blocks[i], class_at(&blocks[i])));
    pthread_barrier_wait(&all_done);
    for (unsigned i = 0; i < owners; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(places_of_all().in_messages, 0);
    return crowded;
}

/* What was freed twice is counted, and changes nothing. */
static void doubled_words(void) {
    char *block = magazine_alloc(self, CLS);
    remote_entry_t word = word_of(block), beyond = word;
    beyond.key = (word.key & ~UINT64_C(63)) | 63;
    slab_t *slab = slab_of(block, CLS);
    unsigned before = slab->free_count, doubled = 0;
    CHECK(map_clear_live(map_granule(block)));
    CHECK(message_add(self, &word) && message_add(self, &word) && message_add(self, &beyond));
    messages_send(self);
    CHECK_EQ(open_all(self, &doubled), 1);
    CHECK_EQ(doubled, 2);
    CHECK_EQ(slab->free_count, before + 1);
    all_is_well();
}

/* The slab was closed since: no message takes the word, and one that did loses it. */
static void slab_gone(void) {
    char *block = magazine_alloc(self, CLS);
    remote_entry_t word = word_of(block);
    CHECK(message_add(self, &word));
    CHECK(map_clear_live(map_granule(block)));
    magazine_free(self, CLS, block);
    (void)heap_trim_all(); /* brings the word home as well: freed twice, but in the same slab */
    CHECK_EQ(self->doubled_count, 1);
    self->doubled_count = 0;
    heap_lock(self);
    heap_retire_spares_locked(self);
    heap_unlock(self);
    CHECK_EQ(map_entry(slab_slot(heap_remote_slab(&word))), 0);
    CHECK(!message_add(self, &word));
    message_t *message = meta_alloc(sizeof *message);
    *message = (message_t){.to = self->front.id, .count = 1, .words = {word}};
    atomic_store(&self->inbox, message);
    unsigned doubled = 0;
    CHECK_EQ(open_all(self, &doubled), 1);
    CHECK_EQ(doubled, 1);
    all_is_well();
}

int main(void) {
    self = start_heap();
    slab_elsewhere();
    doubled_words();
    slab_gone();
    CHECK(!many_owners(SOME) || sysconf(_SC_NPROCESSORS_ONLN) == 1);
    CHECK(many_owners(CROWD));
    all_is_well();
    return CHECK_PASS;
}
