/* SPDX-License-Identifier: MIT
 *
 * Frees of another heap's blocks: gathered in the table, put into a message when another word needs the place, and sent
 * when enough has gathered and on demand; the owner's drain brings all of them home.
 */
#include "core/counters.h"
#include "heap_places.h"

#include <pthread.h>

enum { TINY = 0, TINY_BLOCKS = 6 * 4096, KIB16 = 95, KIB16_BLOCKS = 28, KIB16_PENDING = 16 };

static char *tiny[TINY_BLOCKS], *large[KIB16_BLOCKS];
static heap_t *owner;

static unsigned index_in_slab(const void *block, unsigned cls) { return class_block_index(&hk_classes[cls], block); }

static bool add(heap_t *h, char *block, unsigned cls) {
    return heap_remote_add(h, slab_base(slab_of(block, cls)), cls, index_in_slab(block, cls));
}

/* Five blocks of one word, from its first. */
static char **five_of_a_word(void) {
    char **at = tiny;
    while (index_in_slab(*at, TINY) % 64 != 0 || at[4] != at[0] + 4 * 16)
        at++;
    return at;
}

static void gathered(heap_t *h) {
    char **five = five_of_a_word();
    for (unsigned i = 0; i < 5; i++)
        CHECK(add(h, five[i], TINY));
    CHECK(!add(h, five[3], TINY)); /* noted already */
    places_t p = places_of(TINY);
    CHECK_EQ(p.in_remote_tables, 5);
    CHECK_EQ(p.in_messages, 0);
    CHECK_EQ(h->remote_pending_bytes, 5 * 16);
    heap_remote_post_all(h);
    p = places_of(TINY);
    CHECK_EQ(p.in_remote_tables, 0);
    CHECK_EQ(p.in_messages, 5);
    CHECK_EQ(h->remote_pending_bytes, 0);
    const message_t *message = atomic_load(&owner->inbox);
    CHECK(message != NULL && message->next == NULL);
    CHECK_EQ(message->to, owner->front.id);
    CHECK_EQ(message->count, 1);
}

/* One block of more words than the table has entries. */
static void displaced(heap_t *h) {
    size_t words = 0, before = h->remote_batches;
    for (unsigned i = 0; i < TINY_BLOCKS; i++)
        if (index_in_slab(tiny[i], TINY) % 64 == 50) {
            CHECK(add(h, tiny[i], TINY));
            words++;
        }
    CHECK(words > HEAP_REMOTE_ENTRIES + 32);
    places_t p = places_of(TINY);
    CHECK(p.in_remote_tables <= HEAP_REMOTE_ENTRIES && p.in_remote_tables > HEAP_REMOTE_ENTRIES / 4);
    CHECK_EQ(p.in_remote_tables + p.in_messages, words + 5);
    CHECK_EQ(h->remote_batches - before, words - p.in_remote_tables);
    /* A full message leaves when the next word comes. */
    const message_t *filling = h->outbox[owner->front.id % HEAP_OUTBOX];
    CHECK_EQ(filling->count, (words - p.in_remote_tables - 1) % MESSAGE_WORDS + 1);
}

/* As much as a thread that has given back much may hold back. */
static void enough(heap_t *h) {
    size_t size = hk_class_info[KIB16].block_size;
    CHECK_EQ(size, 16384);
    h->remote_earned_bytes = (KIB16_PENDING << 14) - HEAP_REMOTE_PENDING_BYTES;
    size_t posted = atomic_load(&hk_counters.remote_batches) + h->remote_batches + places_of(TINY).in_remote_tables;
    heap_remote_post_all(h);
    CHECK_EQ(atomic_load(&hk_counters.remote_batches), posted);
    CHECK_EQ(h->remote_batches, 0);
    for (unsigned i = 0; i < KIB16_PENDING; i++) {
        CHECK(add(h, large[i], KIB16));
        CHECK_EQ(h->remote_pending_bytes, (i + 1) * size);
    }
    CHECK_EQ(places_of(KIB16).in_remote_tables, KIB16_PENDING);
    CHECK(add(h, large[KIB16_PENDING], KIB16));
    CHECK_EQ(h->remote_pending_bytes, 0);
    CHECK_EQ(places_of(KIB16).in_remote_tables, 0);
    CHECK_EQ(places_of(KIB16).in_messages, KIB16_PENDING + 1);
    /* A tick posts what is left; nobody earns more than 256 KiB. */
    CHECK(add(h, large[KIB16_PENDING + 1], KIB16));
    h->remote_earned_bytes = 256 << 10;
    heap_tick(h);
    CHECK_EQ(h->remote_earned_bytes, 256 << 10);
    CHECK_EQ(places_of(KIB16).in_messages, KIB16_PENDING + 2);
    CHECK_EQ(h->class_stats[KIB16].freed_remote, KIB16_PENDING + 2);
}

/* A thread that has given back little sends it soon; each time it may hold back a little more. */
static void little(heap_t *h) {
    char *block = large[KIB16_PENDING + 3];
    h->remote_earned_bytes = 0;
    CHECK(add(h, block, KIB16));
    CHECK_EQ(h->remote_pending_bytes, 0);
    CHECK_EQ(places_of(KIB16).in_messages, KIB16_PENDING + 3);
    CHECK_EQ(h->remote_earned_bytes, 16384 / 128);
    h->remote_earned_bytes = 256 << 10;
}

static void *frees(void *unused) {
    (void)unused;
    heap_t *h = heap_current();
    CHECK(h != NULL && h != owner);
    gathered(h);
    displaced(h);
    enough(h);
    little(h);
    /* By the front door; the thread's end posts. */
    release(large[KIB16_PENDING + 2]);
    CHECK_EQ(places_of(KIB16).in_remote_tables, 1);
    return NULL;
}

int main(void) {
    owner = start_heap();
    for (unsigned i = 0; i < TINY_BLOCKS; i++)
        tiny[i] = magazine_alloc(owner, TINY);
    for (unsigned i = 0; i < KIB16_BLOCKS; i++)
        large[i] = magazine_alloc(owner, KIB16);
    CHECK_EQ(live_blocks(TINY), TINY_BLOCKS);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, frees, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(live_blocks(KIB16), KIB16_BLOCKS - KIB16_PENDING - 4);
    places_t posted = places_of(TINY);
    CHECK_EQ(posted.in_remote_tables, 0);
    CHECK_EQ(places_of(KIB16).in_messages, KIB16_PENDING + 4);
    heap_lock(owner);
    heap_drain_locked(owner);
    heap_unlock(owner);
    CHECK(atomic_load(&owner->inbox) == NULL && owner->opened == NULL);
    places_t home = places_of(TINY);
    CHECK_EQ(home.in_messages, 0);
    CHECK_EQ(home.in_free_bits, posted.in_free_bits + posted.in_messages);
    CHECK_EQ(live_blocks(KIB16), KIB16_BLOCKS - KIB16_PENDING - 4);
    CHECK_EQ(places_of(KIB16).in_messages, 0);
    all_is_well();
    return CHECK_PASS;
}
