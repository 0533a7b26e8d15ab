/* SPDX-License-Identifier: MIT
 *
 * Messages of remote frees where it is not the plain case: a slab that changed its owner meanwhile, the pool, more
 * owners than the outbox has places, many owners, an owner who does not look, a fork in the middle, words of blocks
 * freed twice, of a slab that is gone, and of one in whose middle the word lies by now.
 */
#include "heap/messages.h"

#include "core/counters.h"
#include "heap_places.h"
#include "map/meta.h"

#include <pthread.h>

enum { CLS = 25, OTHER = 26, SOME = HEAP_OUTBOX + 4, MANY = 40 };

static heap_t *self;
static pthread_barrier_t all_have, all_done;
static char *blocks[MANY];

static remote_entry_t word_of(const char *block) { return heap_remote_word(block, CLS); }

/* Returns the double frees that it came upon. */
static double_frees_t open_all(heap_t *h, unsigned messages) {
    heap_lock(h);
    size_t before = atomic_load(&hk_counters.remote_drains);
    heap_drain_locked(h);
    CHECK_EQ(atomic_load(&hk_counters.remote_drains), before + messages);
    CHECK(atomic_load(&h->inbox) == NULL && h->opened == NULL);
    double_frees_t doubled = h->double_frees;
    h->double_frees = (double_frees_t){0};
    heap_unlock(h);
    return doubled;
}

/* The word follows its slab: to the pool here, in the same message. */
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
    CHECK_EQ(atomic_load(&slab->owner), HK_OWNER_SHARED);
    /* The first drain of the handing over brought it home; one that comes later is passed on. */
    CHECK_EQ(places_of(CLS).in_messages, 0);
    char *late = heap_take_one(heap_shared(), CLS, &(block_past_t){BLOCK_USED});
    word = word_of(late);
    char *own = magazine_alloc(self, OTHER);
    remote_entry_t own_word = heap_remote_word(own, OTHER), gone = {.key = own_word.key, .bits = 0};
    message_t *message = meta_alloc(sizeof *message);
    *message = (message_t){.to = self->front.id, .count = 4, .words = {own_word, word, gone, own_word}};
    atomic_store(&self->inbox, message);
    CHECK_EQ(open_all(self, 1).count, 1); /* the second of the heap's own */
    CHECK(heap_block_is_free(own, OTHER));
    CHECK(atomic_load(&heap_shared()->inbox) == message && message->to == HK_OWNER_SHARED);
    CHECK_EQ(places_of(CLS).in_messages, 1);
    CHECK_EQ(places_of(OTHER).in_messages, 0);
    CHECK(heap_block_is_free(late, CLS));
    CHECK_EQ(open_all(heap_shared(), 1).count, 0);
    CHECK_EQ(places_of(CLS).in_messages, 0);
    magazine_drop_all(self); /* of the pool's blocks */
}

/* A class of its own for each, which the freeing thread does not use, so that nobody takes a slab and nothing is
 * kept. */
static unsigned class_at(char **place) { return CLS + 1 + (unsigned)(place - blocks); }

static size_t in_messages_of_all(void) {
    size_t sum = 0;
    for (unsigned i = 0; i < MANY; i++)
        sum += places_of(class_at(&blocks[i])).in_messages;
    return sum;
}

static void *owns(void *place) {
    heap_t *h = heap_current();
    *(char **)place = magazine_alloc(h, class_at((char **)place));
    pthread_barrier_wait(&all_have);
    pthread_barrier_wait(&all_done);
    heap_lock(h);
    heap_drain_locked(h);
    CHECK_EQ(h->double_frees.count, 0);
    heap_unlock(h);
    return NULL;
}

/* Every owner gets its block back by a message, when there are many and where another owner has the place, too. */
static void many_owners(unsigned owners) {
    pthread_t threads[MANY];
    CHECK(pthread_barrier_init(&all_have, NULL, owners + 1) == 0);
    CHECK(pthread_barrier_init(&all_done, NULL, owners + 1) == 0);
    for (unsigned i = 0; i < owners; i++)
        CHECK(pthread_create(&threads[i], NULL, owns, &blocks[i]) == 0);
    pthread_barrier_wait(&all_have);
    for (unsigned i = 0; i < owners; i++)
        release(blocks[i]);
    heap_remote_post_all(self);
    CHECK_EQ(in_messages_of_all(), owners);
    for (unsigned i = 0; i < HEAP_OUTBOX; i++)
        CHECK(self->outbox[i] == NULL);
    for (unsigned i = 0; i < owners; i++)
        CHECK(heap_block_is_free(blocks[i], class_at(&blocks[i])));
    pthread_barrier_wait(&all_done);
    for (unsigned i = 0; i < owners; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(in_messages_of_all(), 0);
}

/* What was freed twice is counted, and changes nothing. */
static void double_freed_words(void) {
    char *block = magazine_alloc(self, CLS);
    remote_entry_t word = word_of(block), beyond = word;
    beyond.key = (word.key & ~UINT64_C(63)) | 63;
    slab_t *slab = slab_of(block, CLS);
    unsigned before = slab->free_count;
    CHECK(map_clear_live(map_granule(block)));
    CHECK(message_add(self, &word) && message_add(self, &word) && message_add(self, &beyond));
    messages_send(self);
    double_frees_t doubled = open_all(self, 1);
    CHECK_EQ(doubled.count, 2);
    CHECK(doubled.block == block && doubled.block_size == hk_class_info[CLS].block_size);
    CHECK_EQ(slab->free_count, before + 1);
    all_is_well();
}

/* The slab was closed since: nobody takes the word, and a message that has it loses it. */
static void slab_gone(void) {
    char *block = magazine_alloc(self, CLS);
    remote_entry_t word = word_of(block);
    CHECK(message_add(self, &word));
    CHECK(map_clear_live(map_granule(block)));
    magazine_free(self, CLS, block);
    (void)hk_trim_all(); /* brings the word home as well: freed twice, but in the same slab */
    CHECK_EQ(self->double_frees.count, 1);
    CHECK(self->double_frees.block == block);
    self->double_frees = (double_frees_t){0};
    heap_lock(self);
    heap_close_spares_locked(self);
    heap_unlock(self);
    CHECK_EQ(map_entry(slab_slot(heap_remote_slab(&word))), 0);
    CHECK(!message_add(self, &word));
    CHECK_EQ(heap_remote_give(&word), word.bits);
    message_t *message = meta_alloc(sizeof *message);
    *message = (message_t){.to = self->front.id, .count = 1, .words = {word}};
    atomic_store(&self->inbox, message);
    CHECK_EQ(open_all(self, 1).count, 1);
    all_is_well();
}

static void add_block(const char *block) {
    remote_entry_t word = word_of(block);
    CHECK(map_clear_live(map_granule(block)));
    CHECK(message_add(self, &word));
}

static char *add_one(void) {
    char *block = magazine_alloc(self, CLS);
    add_block(block);
    return block;
}

/* The slot is a later one of a larger slab of the same heap by now; nothing may be written by the record of the
 * slot. */
static void inside_of_another(void) {
    enum { TINY = 0, TINY_SLABS = 40, TINY_BLOCKS = TINY_SLABS * 4096 };
    unsigned large = 0;
    while (hk_class_info[large].slab_slots < HK_SLOTS_PER_SUPERSLAB / 2)
        large++;
    static char *tiny[TINY_BLOCKS];
    remote_entry_t words[TINY_SLABS];
    unsigned count = 0;
    for (unsigned i = 0; i < TINY_BLOCKS; i++)
        tiny[i] = magazine_alloc(self, TINY);
    for (unsigned i = 0; i < TINY_BLOCKS && count < TINY_SLABS; i++)
        if (class_block_index(&hk_classes[TINY], tiny[i]) == 40 * 64)
            words[count++] = (remote_entry_t){heap_remote_key(slab_base(slab_of(tiny[i], TINY)), 40 * 64), 1};
    for (unsigned i = 0; i < TINY_BLOCKS; i++)
        push(self, TINY, tiny[i]);
    magazine_drop_all(self);
    heap_lock(self);
    heap_close_spares_locked(self);
    heap_unlock(self);
    for (unsigned i = 0; i < TINY_SLABS; i++)
        CHECK(magazine_alloc(self, large) != NULL);
    message_t *message = meta_alloc(sizeof *message);
    *message = (message_t){.to = self->front.id};
    for (unsigned i = 0; i < count; i++)
        if (map_entry(slab_slot(heap_remote_slab(&words[i]))) == (self->front.tag | large) &&
            slab_of(slab_base(heap_remote_slab(&words[i])), large) != heap_remote_slab(&words[i])) {
            CHECK(!message_add(self, &words[i]));
            CHECK_EQ(heap_remote_give(&words[i]), words[i].bits);
            message->words[message->count++] = words[i];
        }
    unsigned lost = message->count;
    CHECK(lost > 0);
    atomic_store(&self->inbox, message);
    CHECK_EQ(open_all(self, 1).count, lost);
    all_is_well();
}

/* A block of the pool's is known to be free while its message waits there. */
static void pool_gets_messages(void) {
    char *block = heap_take_one(heap_shared(), CLS, &(block_past_t){BLOCK_USED});
    CHECK(block != NULL && !heap_block_is_free(block, CLS));
    remote_entry_t word = word_of(block);
    (void)map_clear_live_shared(map_granule(block));
    CHECK(message_add(self, &word));
    CHECK(heap_block_is_free(block, CLS));
    messages_send(self);
    CHECK(atomic_load(&heap_shared()->inbox) != NULL);
    CHECK(heap_block_is_free(block, CLS));
    (void)hk_trim_all();
    CHECK(atomic_load(&heap_shared()->inbox) == NULL);
    CHECK_EQ(places_of(CLS).in_messages, 0);
}

/* As many messages wait as may: who sends one more opens them, if nobody has the lock. */
static void owner_does_not_look(void) {
    char *first = magazine_alloc(self, CLS), *second = magazine_alloc(self, CLS);
    atomic_store(&self->inbox_count, HEAP_INBOX_MAX - 2);
    add_block(first);
    messages_send(self);
    CHECK_EQ(atomic_load(&self->inbox_count), HEAP_INBOX_MAX - 1);
    CHECK_EQ(places_of(CLS).in_messages, 1);
    heap_lock(self);
    add_block(second);
    messages_send(self);
    CHECK_EQ(atomic_load(&self->inbox_count), HEAP_INBOX_MAX);
    CHECK_EQ(places_of(CLS).in_messages, 2);
    heap_unlock(self);
    (void)add_one();
    messages_send(self);
    CHECK_EQ(atomic_load(&self->inbox_count), 0);
    CHECK_EQ(places_of(CLS).in_messages, 0);
    CHECK(heap_block_is_free(first, CLS) && heap_block_is_free(second, CLS));
}

/* A full message leaves when another word comes for its place, also by who retires a heap in the child of a fork. */
static void full_message_leaves(void) {
    char *first = add_one();
    message_t *message = self->outbox[self->front.id % HEAP_OUTBOX];
    for (unsigned i = 1; i < MESSAGE_WORDS; i++)
        message->words[i] = (remote_entry_t){message->words[0].key, 0};
    message->count = MESSAGE_WORDS; /* the others empty */
    CHECK(atomic_load(&self->inbox) == NULL);
    char *second = add_one();
    CHECK(atomic_load(&self->inbox) == message);
    CHECK_EQ(message->count, MESSAGE_WORDS);
    CHECK_EQ(self->outbox[self->front.id % HEAP_OUTBOX]->count, 1);
    CHECK(heap_block_is_free(first, CLS) && heap_block_is_free(second, CLS));
    messages_send(self);
    CHECK_EQ(open_all(self, 2).count, 0);
    CHECK(heap_block_is_free(first, CLS) && heap_block_is_free(second, CLS));
}

/* One that goes on to another heap takes nothing of the list along: what waited behind it is read. */
static void next_one_is_read(void) {
    char *block = magazine_alloc(self, CLS),
         *of_pool = heap_take_one(heap_shared(), OTHER, &(block_past_t){BLOCK_USED});
    message_t *first = meta_alloc(sizeof *first), *second = meta_alloc(sizeof *second);
    CHECK(block != NULL && of_pool != NULL && map_clear_live(map_granule(block)));
    CHECK(map_clear_live_shared(map_granule(of_pool)));
    *second = (message_t){.to = self->front.id, .count = 1, .words = {word_of(block)}};
    *first = (message_t){.next = second, .to = self->front.id, .count = 1, .words = {heap_remote_word(of_pool, OTHER)}};
    atomic_store(&self->inbox, first);
    CHECK_EQ(open_all(self, 2).count, 0);
    CHECK_EQ(places_of(CLS).in_messages, 0);
    CHECK(atomic_load(&heap_shared()->inbox) == first && first->next == NULL);
    CHECK_EQ(open_all(heap_shared(), 1).count, 0);
    CHECK(heap_block_is_free(block, CLS));
    CHECK_EQ(live_blocks(OTHER), 0);
}

/* The memory of an opened message serves the next one. */
static void memory_serves_again(void) {
    const message_t *first = NULL;
    for (unsigned i = 0; i < 10; i++) {
        (void)add_one();
        messages_send(self);
        const message_t *message = atomic_load(&self->inbox);
        CHECK(message != NULL && (first == NULL || message == first));
        first = message;
        CHECK_EQ(open_all(self, 1).count, 0);
    }
}

/* The bound itself is too many: the message that reaches it is opened with the others. */
static void opened_at_the_bound(void) {
    atomic_store(&self->inbox_count, HEAP_INBOX_MAX - 1);
    char *block = add_one();
    messages_send(self);
    CHECK_EQ(atomic_load(&self->inbox_count), 0);
    CHECK_EQ(places_of(CLS).in_messages, 0);
    CHECK(heap_block_is_free(block, CLS));
}

int main(void) {
    self = start_heap();
    next_one_is_read();
    memory_serves_again();
    opened_at_the_bound();
    slab_elsewhere();
    double_freed_words();
    slab_gone();
    inside_of_another();
    pool_gets_messages();
    owner_does_not_look();
    full_message_leaves();
    many_owners(SOME);
    many_owners(MANY);
    all_is_well();
    return CHECK_PASS;
}
