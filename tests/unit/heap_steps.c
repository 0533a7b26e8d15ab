/* SPDX-License-Identifier: MIT
 *
 * After each single instruction of malloc, free, a post and a drain: no block is in two places (HEAP-1). A fork between
 * any two of them gives its child the memory as it is then, and the child takes every block that it finds; so does who
 * looks for a block without a lock. The processor's trap flag stops the thread after each instruction, and the handler
 * counts.
 *
 * What a lock guards is looked at when nobody has it: a child that inherits one that is held leaves all of that alone.
 */
#include "front/front.h"
#include "heap_places.h"
#include "steps.h"

#include <pthread.h>

enum {
    TINY = 0,
    TINY_BLOCKS = 5 * 4096,
    WORD_BIT = 50, /* of each word of live bits, the block that is freed */
    CLS = 12,
    SIZE = (CLS + 1) * 16,
    BLOCKS = 600,
    STEPS_MIN = 20000,
};

static heap_t *owner, *self;
static char *blocks[TINY_BLOCKS];
static void *volatile taken[BLOCKS];
static unsigned long steps, found_most;

/* --- What is found after one step --------------------------------------------------------------------------------- */

static uint8_t seen[64 << 20 >> HK_GRANULE_SHIFT]; /* by granules around the first block */
static uint8_t may_be_free[sizeof seen];           /* what is freed in these steps, or may be at any time */
static granule_t seen_list[64 * 1024];
static unsigned seen_count;
static granule_t base;

static size_t place_of(granule_t granule) {
    size_t at = granule - base + sizeof seen / 2;
    CHECK_SAY(at < sizeof seen, "granule %zx", (size_t)granule);
    return at;
}

static void found(granule_t granule, const char *where) {
    size_t at = place_of(granule);
    CHECK_SAY(seen[at] == 0, "step %lu: %p is found again, %s", steps, map_granule_address(granule), where);
    CHECK_SAY(may_be_free[at], "step %lu: %p is the program's, and found %s", steps, map_granule_address(granule),
              where);
    CHECK(seen_count < sizeof seen_list / sizeof *seen_list);
    seen[at] = 1;
    seen_list[seen_count++] = granule;
}

static void found_word(const remote_entry_t *word, const char *where) {
    for (uint64_t bits = word->bits; bits != 0; bits &= bits - 1)
        found(map_granule(heap_remote_block(word, heap_remote_slab(word)->cls, bits)), where);
}

static void found_message(const message_t *message, const char *where) {
    CHECK_SAY(message->count <= MESSAGE_WORDS, "step %lu: %u words, %s", steps, message->count, where);
    for (unsigned i = 0; i < message->count; i++)
        found_word(&message->words[i], where);
}

static void found_remote(const heap_t *h) {
    for (unsigned i = 0; i < HEAP_REMOTE_ENTRIES; i++)
        if (h->remote_table[i].bits != 0)
            found_word(&h->remote_table[i], "in a remote table");
    for (unsigned i = 0; i < HEAP_OUTBOX; i++)
        if (h->outbox[i] != NULL)
            found_message(h->outbox[i], "in an outbox");
    for (const message_t *m = atomic_load(&h->inbox); m != NULL; m = m->next)
        found_message(m, "in an inbox");
    for (const message_t *m = h->opened; m != NULL; m = m->next)
        found_message(m, "in a message being opened");
}

/* As magazine_mend sees it: without an array there is nothing, and else no more than fits. */
static void found_magazine(const heap_t *h, unsigned cls) {
    const magazine_t *magazine = &h->front.magazines[cls];
    const granule_t *array = h->class_stats[cls].array;
    if (magazine->below == NULL || magazine->last == NULL)
        return;
    uint64_t count = heap_magazine_count(h, cls);
    CHECK_SAY(count <= heap_magazine_capacity(h, cls) && count <= BLOCKS, "step %lu: %llu blocks in a magazine of %u",
              steps, (unsigned long long)count, heap_magazine_capacity(h, cls));
    if (atomic_load(&h->lock.word) != 0)
        return;
    if (count > 0 && magazine->top != 0)
        found(magazine->top, "on top of a magazine");
    for (uint64_t i = 1; i < count; i++)
        found(array[i], "in a magazine");
}

/* Each block that these steps may free lies in free_bits, or does not. */
static void found_home(const char *block, unsigned cls) {
    const slab_t *slab = slab_of(block, cls);
    unsigned index = class_block_index(&hk_classes[cls], block);
    if ((slab->free_bits[index / 64] >> (index % 64) & 1) != 0)
        found(map_granule(block), "in its slab");
}

static void (*look)(void);

static void step(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    if (steps++ % STEPS_EACH != 0)
        return;
    look();
    found_most = found_most > seen_count ? found_most : seen_count;
    while (seen_count > 0)
        seen[place_of(seen_list[--seen_count])] = 0;
}

static void run_steps(void (*what)(void), void (*looks)(void)) {
    look = looks;
    steps = found_most = 0;
    what();
    test_say("%lu steps, up to %lu blocks found\n", steps, found_most);
    CHECK(steps > STEPS_MIN);
    all_is_well();
}

/* --- Another heap's blocks ---------------------------------------------------------------------------------------- */

static bool is_freed(const char *block) { return class_block_index(&hk_classes[TINY], block) % 64 == WORD_BIT; }

static void look_at_remote(void) {
    found_remote(self);
    found_remote(owner);
    for (unsigned i = 0; i < TINY_BLOCKS; i++)
        if (blocks[i] != NULL)
            found_home(blocks[i], TINY);
}

/* One of more words than the table has places; the rest is posted. */
static void free_others(void) {
    unsigned freed = 0;
    steps_begin();
    for (unsigned i = 0; i < TINY_BLOCKS; i++)
        if (blocks[i] != NULL)
            freed += heap_remote_add(self, slab_base(slab_of(blocks[i], TINY)), TINY,
                                     class_block_index(&hk_classes[TINY], blocks[i]));
    heap_remote_post_all(self);
    steps_end();
    CHECK(freed > HEAP_REMOTE_ENTRIES + 32);
}

static void drain(void) {
    steps_begin();
    heap_lock(owner);
    heap_drain_locked(owner);
    heap_unlock(owner);
    steps_end();
    CHECK_EQ(places_of(TINY).in_messages, 0);
}

static void *frees(void *unused) {
    self = heap_current();
    CHECK(self != NULL && self != owner);
    run_steps(free_others, look_at_remote);
    run_steps(drain, look_at_remote);
    return unused;
}

static void others(void) {
    owner = start_heap();
    for (unsigned i = 0; i < TINY_BLOCKS; i++)
        blocks[i] = magazine_alloc(owner, TINY);
    base = map_granule(blocks[0]);
    for (unsigned i = 0; i < TINY_BLOCKS; i++) {
        if (is_freed(blocks[i]))
            may_be_free[place_of(map_granule(blocks[i]))] = 1;
        else
            blocks[i] = NULL;
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, frees, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* --- Own blocks --------------------------------------------------------------------------------------------------- */

static void look_at_own(void) {
    found_magazine(self, CLS);
    if (atomic_load(&self->lock.word) != 0)
        return;
    for (unsigned i = 0; i < BLOCKS; i++)
        found_home(blocks[i], CLS);
}

/* Magazines that are filled, grow, and are emptied. */
static void take_and_give(void) {
    steps_begin();
    for (unsigned i = 0; i < BLOCKS; i++)
        taken[i] = front_malloc(SIZE);
    for (unsigned i = 0; i < BLOCKS; i++)
        front_free(taken[i]);
    for (unsigned i = 0; i < 16; i++)
        magazine_tick(self); /* what nobody uses shrinks */
    steps_end();
    CHECK_EQ(bin_count(self, CLS), 0);
}

static void own(void) {
    self = start_heap();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = magazine_alloc(self, CLS);
    base = map_granule(blocks[0]);
    memset(may_be_free, 1, sizeof may_be_free); /* which slab serves is not this test's */
    for (unsigned i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    magazine_drop_all(self);
    run_steps(take_and_give, look_at_own);
}

int main(void) {
    steps_init(step);
    in_child(own);
    in_child(others);
    return CHECK_PASS;
}
