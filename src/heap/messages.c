/* SPDX-License-Identifier: MIT
 *
 * messages.c: frees of another heap's blocks on their way to it.
 *
 * A thread puts the words of remote frees that leave its table (remote.c) into a message for the heap that owns the slab. A full
 * one is pushed on that heap's inbox by one compare-and-swap, and whoever holds the heap's lock takes all that have come by one
 * exchange (after snmalloc's message passing; Liétar et al., ISMM 2019). What crosses from core to core is then lines full of
 * words, read one after the other, instead of two lines of each slab. A message is the sender's before the push and the opener's
 * after the exchange; but reports read it wherever it is. Model: docs/models/messages.pml.
 *
 *   outbox:  NULL --begin--> being filled --full and one more comes, or everything is posted--> NULL, and in the inbox
 *   inbox:   pushed --exchange--> opened: each word goes to its slab's free bits --> memory of the message free
 *
 * The owner may have changed meanwhile: then the word goes on by way of the slab's remote bits, which are always right.
 */
#include "heap/messages.h"

#include "base/bits.h"
#include "heap/heap.h"
#include "map/meta.h"

enum {
    WORDS_AHEAD = 8,                    /* so many words before its turn, a slab's record is fetched */
    LOOKED_AT_MAX = 8 * HEAP_INBOX_MAX, /* messages of one inbox that a report looks through: more than there can be */
};

_Static_assert(sizeof(message_t) == 1024, "a power of two, as meta_alloc rounds to");

/* --- Sending ------------------------------------------------------------------------------------------------------------- */

/* Out of the outbox first: a fork in between loses the message in the child rather than sending it twice. */
static void send(heap_t *h, unsigned at) {
    message_t *message = h->outbox[at];
    hk_write(h->outbox[at], NULL);
    heap_t *owner = heap_by_id(message->to);
    _Atomic(message_t *) *inbox = &owner->inbox;
    /* Relaxed: a bound that need not be exact. Senders add and read, who opens resets. */
    atomic_fetch_add_explicit(&owner->inbox_count, 1, memory_order_relaxed);
    message_t *first = atomic_load_explicit(inbox, memory_order_relaxed);
    /* Release: what the message says, and what the freeing thread did with the blocks before; pairs with the acquire in
     * messages_open_locked. And for the child of a fork: the outbox is empty before. No ABA: nobody takes a single message out. */
    do
        hk_write(message->next, first);
    while (!atomic_compare_exchange_weak_explicit(inbox, &first, message, memory_order_release, memory_order_relaxed));
}

/* In a crowd, a message for each of many owners in each of many threads would add up; and so would those that wait for an owner who
 * does not look. */
static bool may_begin(uint32_t to) {
    return !heap_is_crowded() &&
           atomic_load_explicit(&heap_by_id(to)->inbox_count, memory_order_relaxed) < HEAP_INBOX_MAX;
}

static message_t *begin(heap_t *h, unsigned at, uint32_t to) {
    message_t *message = may_begin(to) ? meta_alloc(sizeof *message) : NULL;
    if (message == NULL)
        return NULL;
    hk_write(message->to, to);
    hk_write(message->count, 0);
    /* Release: for the child of a fork; and pairs with the acquire in messages_hold_out. */
    hk_write_release(h->outbox[at], message);
    return message;
}

bool message_add(heap_t *h, const remote_entry_t *word) {
    uint32_t entry = map_entry(slab_slot(heap_remote_slab(word))), to = entry >> 8;
    if (hk_unlikely(to == HK_OWNER_NONE || map_is_run(entry))) /* a double free: the slab is gone */
        return false;
    unsigned at = to % HEAP_OUTBOX;
    message_t *message = h->outbox[at];
    if (message != NULL && message->count == MESSAGE_WORDS) {
        send(h, at);
        message = NULL;
    }
    if (message == NULL)
        message = begin(h, at, to);
    if (hk_unlikely(message == NULL || message->to != to))
        return false;
    unsigned count = message->count;
    message->words[count] = *word;
    /* Release: for the child of a fork, for which the word has left the table before (remote.c); and pairs with the acquire in holds: who
     * finds the count finds these words, not those of the memory's last use. */
    hk_write_release(message->count, count + 1);
    return true;
}

void messages_send(heap_t *h) {
    for (unsigned at = 0; at < HEAP_OUTBOX; at++)
        if (h->outbox[at] != NULL)
            send(h, at);
}

/* --- Opening ------------------------------------------------------------------------------------------------------------- */

static void note_doubled_locked(heap_t *h, const slab_t *slab, unsigned at, uint64_t bits) {
    h->doubled.count += hk_popcount64(bits);
    h->doubled.block_size = hk_class_info[slab->cls].block_size;
    h->doubled.block = slab_base(slab) + (at * 64 + hk_ctz64(bits)) * (size_t)h->doubled.block_size;
}

/* The slab is the heap's own. A bit that it has no block for was freed twice, and another slab closed in between. */
static void give_locked(heap_t *h, slab_t *slab, unsigned at, uint64_t bits) {
    unsigned first = at * 64, cls = slab->cls;
    uint64_t blocks = first < slab->block_count ? hk_low_mask64(slab->block_count - first) : 0;
    h->doubled.count += hk_popcount64(bits & ~blocks);
    bits &= blocks;
    if (hk_unlikely(bits == 0))
        return;
    uint64_t doubled = slab_give(slab, at, bits);
    if (hk_unlikely(doubled != 0))
        note_doubled_locked(h, slab, at, doubled);
    if (slab->free_count >= slab->settle_at)
        heap_settle_locked(h, slab);
    heap_count_freed_locked(h, cls, hk_popcount64(bits & ~doubled));
}

/* Where the slab's first slot was, there may be a later one of another slab by now: freed twice, too. */
static void take_in_locked(heap_t *h, const remote_entry_t *word) {
    slab_t *slab = heap_remote_slab(word);
    unsigned at = word->key & 63;
    uint32_t entry = map_entry(slab_slot(slab));
    if (hk_unlikely(entry >> 8 != h->front.id || map_is_run(entry)))
        h->doubled.count += hk_popcount64(heap_remote_post_word(slab, at, word->bits));
    else if (hk_unlikely((slab_slot(slab) & (hk_class_info[entry & HK_MAP_CLASS_MAX].slab_slots - 1u)) != 0))
        h->doubled.count += hk_popcount64(word->bits);
    else
        give_locked(h, slab, at, word->bits);
}

/* From its end. A word leaves the message before its blocks go on, as in leave_locked (magazine.c): they may be handed out at once,
 * and who looks for one then must not find it here, nor in the memory of a message that was. The count needs no order of its own: who
 * gets a block has it through the heap's lock, or through the release in slab_post. */
static void open_locked(heap_t *h, message_t *message) {
    for (unsigned i = message->count; i-- > 0;) {
        __builtin_prefetch(heap_remote_slab(&message->words[i < WORDS_AHEAD ? 0 : i - WORDS_AHEAD]), 1);
        hk_write(message->count, i);
        take_in_locked(h, &message->words[i]);
    }
}

unsigned messages_open_locked(heap_t *h) {
    if (hk_likely(atomic_load_explicit(&h->inbox, memory_order_relaxed) == NULL))
        return 0;
    atomic_store_explicit(&h->inbox_count, 0, memory_order_relaxed);
    /* Acquire: pairs with the release in send. */
    message_t *first = atomic_exchange_explicit(&h->inbox, NULL, memory_order_acquire);
    hk_write(h->opened, first);
    unsigned count = 0;
    for (; first != NULL; count++) {
        message_t *message = first;
        open_locked(h, message);
        first = message->next;
        hk_write(h->opened, first);
        meta_free(message, sizeof *message);
    }
    return count;
}

/* --- For reports --------------------------------------------------------------------------------------------------------- */

/* A message that was opened meanwhile is other metadata by now: what is found in it is bounded before it is used. */
static HK_SNAPSHOT bool is_metadata(const message_t *message) {
    uintptr_t offset = (uintptr_t)message - hk_window.areas[REGION_AREA_META];
    return offset % sizeof *message == 0 && offset < region_area_size(REGION_AREA_META);
}

static HK_SNAPSHOT bool holds(const message_t *message, const remote_entry_t *word) {
    /* Acquire: pairs with the release in message_add. */
    unsigned count = (unsigned)hk_min(hk_read_acquire(message->count), MESSAGE_WORDS);
    for (unsigned i = 0; i < count; i++)
        if (hk_read(message->words[i].key) == word->key && (hk_read(message->words[i].bits) & word->bits) != 0)
            return true;
    return false;
}

/* One that was opened while it is looked at leads on to what is free, or serves others. */
static HK_SNAPSHOT bool list_holds(const message_t *message, uint32_t to, const remote_entry_t *word) {
    for (unsigned i = 0; i < LOOKED_AT_MAX && message != NULL && is_metadata(message); i++) {
        if (hk_read(message->to) == to && holds(message, word))
            return true;
        message = hk_read(message->next);
    }
    return false;
}

HK_SNAPSHOT bool messages_hold_out(const heap_t *h, const remote_entry_t *word) {
    for (unsigned at = 0; at < HEAP_OUTBOX; at++) {
        const message_t *message = hk_read_acquire(h->outbox[at]);
        if (message != NULL && holds(message, word))
            return true;
    }
    return false;
}

HK_SNAPSHOT bool messages_hold_in(const heap_t *h, const remote_entry_t *word) {
    uint32_t to = h->front.id;
    return list_holds(atomic_load_explicit(&h->inbox, memory_order_acquire), to, word) ||
           list_holds(hk_read(h->opened), to, word);
}
