/* SPDX-License-Identifier: MIT
 *
 * Other threads between any two instructions of this one. What the child of a fork would find of another thread's
 * magazines, table and messages: it may lose a block, and never finds one twice, nor the bits of one word with the key
 * of another. What happens under a heap's lock is left out: a fork takes it. And a slab that changes hands while a
 * block of it comes home. Skips where a program cannot single-step itself.
 */
#include "front/front.h"
#include "heap_places.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#if defined(__x86_64__)
enum { CAN_STEP = 1 };
static void step_begin(void) {
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n leaq 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}
static void step_end(void) {
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n leaq 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}
#else
enum { CAN_STEP = 0 };
static void step_begin(void) {}
static void step_end(void) {}
#endif

enum { CLS = 20, BLOCKS = 120, WORDS = 450, WORD_BLOCKS = 64 };

static heap_t *h;
static size_t freed;        /* remote frees that have begun */
static unsigned long steps; /* looked at */
static void (*look)(void);

static void on_step(int signal) {
    (void)signal;
    if (atomic_load(&h->lock.word) == 0 && atomic_load(&heap_shared()->lock.word) == 0) {
        steps++;
        look();
    }
}

static void start(void (*looks_at)(void)) {
    h = start_heap();
    look = looks_at;
    struct sigaction action = {.sa_handler = on_step};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
}

/* --- Magazines ---------------------------------------------------------------------------------------------------- */

/* As who retires the heap would find it. */
static void look_at_magazine(void) {
    const magazine_t *magazine = &h->front.magazines[CLS];
    const granule_t *array = h->class_stats[CLS].array;
    if (magazine->below == NULL || magazine->last == NULL) /* magazine_mend: none */
        return;
    uint64_t count = heap_magazine_count(h, CLS);
    CHECK(count <= hk_class_info[CLS].magazine_max);
    for (uint64_t i = 1; i <= count; i++) {
        granule_t one = i < count ? array[i] : magazine->top;
        CHECK(one != 0 && slab_of(map_granule_address(one), CLS)->cls == CLS);
        for (uint64_t k = 1; k < i; k++)
            CHECK(array[k] != one);
    }
}

static void magazine_in_steps(void) {
    static void *blocks[BLOCKS];
    start(look_at_magazine);
    for (unsigned i = 0; i < BLOCKS; i++) {
        step_begin();
        blocks[i] = front_malloc(hk_class_info[CLS].block_size);
        step_end();
        CHECK(blocks[i] != NULL);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        step_begin();
        front_free(blocks[i]);
        step_end();
    }
    CHECK(steps > 10 * BLOCKS);
    all_is_well();
}

/* --- The table and messages --------------------------------------------------------------------------------------- */

/* One block of each word is freed: which one, the word tells. */
static uint64_t bit_of(uint64_t key) { return UINT64_C(1) << (key * UINT64_C(0x9e3779b97f4a7c15) >> 40) % WORD_BLOCKS; }

static size_t words_of(const message_t *message) {
    size_t count = message == NULL ? 0 : message->count;
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(message->words[i].bits, bit_of(message->words[i].key));
    return count;
}

static heap_t *owner;

static void look_at_words(void) {
    size_t count = 0;
    for (unsigned i = 0; i < HEAP_REMOTE_ENTRIES; i++) {
        const remote_entry_t *entry = &h->remote_table[i];
        if (entry->bits == 0)
            continue;
        CHECK_EQ(entry->bits, bit_of(entry->key));
        count++;
    }
    for (unsigned i = 0; i < HEAP_OUTBOX; i++)
        count += words_of(h->outbox[i]);
    for (const message_t *message = atomic_load(&owner->inbox); message != NULL; message = message->next)
        count += words_of(message);
    CHECK(count <= freed);
}

static void *words[WORDS];
static pthread_barrier_t barrier;

static void *allocates(void *unused) {
    (void)unused;
    owner = heap_current();
    unsigned count = 0;
    while (count < WORDS) {
        void *block = magazine_alloc(owner, 0);
        remote_entry_t word = heap_remote_word(block, 0);
        if (word.bits == bit_of(word.key) && count < WORDS) {
            words[count++] = block;
        }
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void words_in_steps(void) {
    start(look_at_words);
    pthread_t thread;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0 && pthread_create(&thread, NULL, allocates, NULL) == 0);
    pthread_barrier_wait(&barrier);
    size_t displaced = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        displaced += heap_remote_entry(h, heap_remote_word(words[i], 0).key)->bits != 0;
        freed++;
        step_begin();
        front_free(words[i]);
        step_end();
    }
    CHECK(displaced > WORDS / 4); /* so that messages were filled, and sent */
    CHECK(atomic_load(&owner->inbox) != NULL);
    step_begin();
    heap_remote_post_all(h);
    step_end();
    look_at_words();
    CHECK(steps > 10 * WORDS);
    size_t sent = 0;
    for (const message_t *message = atomic_load(&owner->inbox); message != NULL; message = message->next)
        sent += words_of(message);
    CHECK_EQ(sent, WORDS);
    all_is_well();
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* --- Straight into a slab ----------------------------------------------------------------------------------------- */

static slab_t *moving;
static bool has_moved;
static unsigned long moves_at; /* the step at which it does */

static void settle(slab_t *slab) {
    hk_lock(&h->lock);
    heap_settle_locked(h, slab);
    hk_unlock(&h->lock);
}

/* One of both is `h`, the other the shared heap. */
static void move_slab(heap_t *from, heap_t *to) {
    hk_lock(&h->lock);
    hk_lock(&heap_shared()->lock);
    heap_remove_locked(from, moving);
    slab_set_owner(moving, to->front.id);
    heap_insert_locked(to, moving);
    hk_unlock(&heap_shared()->lock);
    hk_unlock(&h->lock);
}

static void move_at_step(void) {
    if (has_moved || steps < moves_at)
        return;
    has_moved = true;
    move_slab(h, heap_shared());
}

static void take_all_of(slab_t *slab) {
    static granule_t rest[4096];
    (void)slab_take(slab, rest + 4096, 4096);
    CHECK_EQ(slab->free_count, 0);
    settle(slab);
}

/* At each step in turn somebody else takes the slab over: between the look at its owner and that owner's lock, too. */
static void give_in_steps(void) {
    start(move_at_step);
    CHECK(magazine_alloc(h, CLS) != NULL && magazine_alloc(h, CLS) != NULL);
    void *block = magazine_alloc(h, CLS);
    moving = slab_of(block, CLS);
    const remote_entry_t word = heap_remote_word(block, CLS);
    unsigned taken = 0, moved = 0;
    take_all_of(moving); /* so that a block that comes back brings it into another list */
    for (moves_at = 1; moves_at == 1 || has_moved; moves_at++) {
        has_moved = false;
        steps = 0;
        step_begin();
        uint64_t doubled = heap_remote_give(&word);
        step_end();
        CHECK_EQ(doubled, 0);
        CHECK_EQ(moving->free_count, taken + 1);
        CHECK_EQ(atomic_load(&moving->owner), has_moved ? HK_OWNER_SHARED : h->front.id);
        all_is_well();
        if (has_moved)
            move_slab(heap_shared(), h);
        moved += has_moved;
        moving->free_bits[word.key & 63] &= ~word.bits; /* handed out again */
        moving->free_count--;
        settle(moving);
    }
    CHECK(moved > 10);
}

int main(void) {
    if (!CAN_STEP)
        return check_skip("this processor has no trap after each instruction that a program may ask for");
    if (HK_TSAN)
        return check_skip("ThreadSanitizer handles signals later, not after each instruction");
    in_child(magazine_in_steps);
    in_child(words_in_steps);
    in_child(give_in_steps);
    return CHECK_PASS;
}
