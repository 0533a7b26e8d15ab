/* SPDX-License-Identifier: MIT
 *
 * messages.c: frees of another heap's blocks on their way to it.
 *
 * A thread puts the words of remote frees that leave its table (remote.c) into a message for the heap that owns the
 * slab. A full one is pushed on that heap's inbox by one compare-and-swap, and whoever holds the heap's lock takes all
 * that have come by one exchange (after snmalloc's message passing; Liétar et al., ISMM 2019). What crosses from core
 * to core is then lines full of words, read one after the other, instead of two lines of each slab. A message is the
 * sender's before the push and the opener's after the exchange; but reports read it wherever it is. Model:
 * docs/models/messages.pml.
 *
 *   outbox:  NULL --begin--> being filled --full and one more comes, or everything is posted--> NULL, and in the inbox
 *   inbox:   pushed --exchange--> opened: each word goes to its slab's free bits --> a blank (blanks.h)
 *
 * A slab may have changed its owner meanwhile. What is left of a message when it has been gone through goes on to the
 * owner of the last word that is left, so nobody waits for a second heap's lock, and nothing is lost when memory is
 * out.
 */
#include "heap/messages.h"

#include "base/bits.h"
#include "core/counters.h"
#include "core/panic.h"
#include "heap/blanks.h"
#include "heap/budget.h"
#include "heap/lists.h"
#include "sys/sys.h"

enum {
    WORDS_AHEAD = 8,                    /* so many words before its turn, a slab's record is fetched */
    OVERSUBSCRIBED_SHARE = 32,          /* of HEAP_INBOX_MAX */
    LOOKED_AT_MAX = 8 * HEAP_INBOX_MAX, /* messages of one inbox that a report looks through: more than there can be */
};

_Static_assert(sizeof(message_t) == 1024, "a power of two, as meta_alloc rounds to");

/* The parse is the check: for hk_assert, of a message that is this thread's. */
static bool message_is_whole(const message_t *message) {
    hk_assert((uintptr_t)message % sizeof *message == 0);
    hk_assert((uintptr_t)message - hk_window.areas[REGION_AREA_META] < hk_window.area_sizes[REGION_AREA_META]);
    hk_assert(message->count <= MESSAGE_WORDS);
    hk_assert(message->to != HK_OWNER_NONE && heap_has_id(message->to));
    for (unsigned i = 0; HK_CHECK && i < message->count; i++)
        hk_assert(message->words[i].key != 0);
    return true;
}

/* --- Sending ------------------------------------------------------------------------------------------------------ */

uint32_t heap_remote_owner(const remote_entry_t *word) {
    slot_t slot = slab_slot(heap_remote_slab(word));
    uint32_t entry = map_entry(slot);
    bool begins = !map_is_run(entry) && (slot & (hk_class_info[entry & HK_MAP_CLASS_MAX].slab_slots - 1u)) == 0;
    return begins ? entry >> 8 : HK_OWNER_NONE;
}

static void push(message_t *message) {
    hk_assert(message_is_whole(message));
    heap_t *owner = heap_by_id(message->to);
    _Atomic(message_t *) *inbox = &owner->inbox;
    /* Relaxed: a bound that need not be exact. Senders add and read, who opens resets. */
    atomic_fetch_add_explicit(&owner->inbox_count, 1, memory_order_relaxed);
    message_t *first = atomic_load_explicit(inbox, memory_order_relaxed);
    /* Release: what the message says, and what the freeing thread did with the blocks before; pairs with the acquire
     * in heap_drain_locked. And for the child of a fork: the outbox is empty before. No ABA: nobody takes a single
     * message out. */
    do
        hk_write(message->next, first);
    while (!atomic_compare_exchange_weak_explicit(inbox, &first, message, memory_order_release, memory_order_relaxed));
}

/* Messages that wait for an owner who does not look add up; with many owners, few of each do. Whoever finds too many
 * opens them, unless somebody has the heap's lock: then it is looked after. But when oversubscribed, who has it was
 * mostly stopped there, and gets a processor only after all others have had theirs: it may have this one now. Nobody
 * waits for the lock itself, as its holder may be stopped for good. */
static void bound_inbox(heap_t *owner) {
    bool oversubscribed = heap_is_oversubscribed();
    uint32_t most = oversubscribed ? HEAP_INBOX_MAX / OVERSUBSCRIBED_SHARE : HEAP_INBOX_MAX;
    if (hk_likely(atomic_load_explicit(&owner->inbox_count, memory_order_relaxed) < most))
        return;
    if (hk_try_lock(&owner->lock)) {
        heap_drain_locked(owner);
        hk_unlock(&owner->lock);
    } else if (oversubscribed) {
        sys_yield();
    }
}

/* Out of the outbox first: a fork in between loses the message in the child rather than sending it twice. */
static void send(heap_t *h, unsigned at) {
    hk_assert(h->outbox[at] != NULL);
    message_t *message = h->outbox[at];
    hk_write(h->outbox[at], NULL);
    heap_t *owner = heap_by_id(message->to);
    push(message);
    bound_inbox(owner);
}

bool message_send_alone(uint32_t to, const remote_entry_t *word) {
    hk_assert(word->bits != 0);
    message_t *message = blank_take(to);
    if (message == NULL)
        return false;
    hk_write(message->to, to);
    message->words[0] = *word;
    hk_write_release(message->count, 1); /* pairs with the acquire in holds */
    push(message);
    return true;
}

static message_t *begin(heap_t *h, unsigned at, uint32_t to) {
    hk_assert(to % HEAP_OUTBOX == at && h->outbox[at] == NULL);
    message_t *message = blank_take(h->front.id);
    if (message == NULL)
        return NULL;
    hk_write(message->to, to);
    hk_write(message->count, 0);
    /* Release: for the child of a fork; and pairs with the acquire in messages_hold_out. */
    hk_write_release(h->outbox[at], message);
    return message;
}

bool message_add(heap_t *h, const remote_entry_t *word) {
    hk_assert(word->bits != 0);
    uint32_t to = heap_remote_owner(word);
    if (hk_unlikely(to == HK_OWNER_NONE)) /* a double free: the slab is gone */
        return false;
    unsigned at = to % HEAP_OUTBOX;
    message_t *message = h->outbox[at];
    if (message != NULL && (message->count == MESSAGE_WORDS || message->to != to)) {
        send(h, at);
        message = NULL;
    }
    if (message == NULL)
        message = begin(h, at, to);
    if (hk_unlikely(message == NULL))
        return false;
    unsigned count = message->count;
    message->words[count] = *word;
    /* Release: for the child of a fork, for which the word has left the table before (remote.c); and pairs with the
     * acquire in holds: who finds the count finds these words, not those of the memory's last use. */
    hk_write_release(message->count, count + 1);
    return true;
}

void messages_send(heap_t *h) {
    for (unsigned at = 0; at < HEAP_OUTBOX; at++)
        if (h->outbox[at] != NULL)
            send(h, at);
}

/* --- Opening ------------------------------------------------------------------------------------------------------ */

uint64_t heap_remote_give_locked(heap_t *h, const remote_entry_t *word) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(word->bits != 0);
    hk_assert(heap_remote_owner(word) == h->front.id);
    slab_t *slab = heap_remote_slab(word);
    unsigned at = word->key & 63, first = at * 64, cls = slab->cls;
    uint64_t blocks = first < slab->block_count ? hk_low_mask64(slab->block_count - first) : 0;
    uint64_t bits = word->bits & blocks, double_frees = word->bits & ~blocks;
    if (hk_unlikely(bits == 0))
        return double_frees;
    double_frees |= slab_give(slab, at, bits);
    if (slab->free_count >= slab->settle_at)
        heap_settle_locked(h, slab);
    heap_count_freed_locked(h, cls, hk_popcount64(word->bits & ~double_frees));
    return double_frees;
}

static HK_COLD void note_double_frees_locked(heap_t *h, const remote_entry_t *word, unsigned cls, uint64_t bits) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(bits != 0);
    h->double_frees.count += hk_popcount64(bits);
    h->double_frees.block_size = hk_class_info[cls].block_size;
    h->double_frees.block = heap_remote_block(word, cls, bits);
}

/* A word leaves its message before its blocks go on, as in leave_locked (flush.c): they may be handed out at
 * once, and who looks for one then must not find it here, nor in the memory of a message that was. That needs no
 * order of its own: who gets a block has it through the heap's lock. */
static void take_in_locked(heap_t *h, message_t *message, unsigned at) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(at < message->count);
    const remote_entry_t word = message->words[at];
    unsigned cls = heap_remote_slab(&word)->cls;
    hk_write(message->words[at].bits, 0);
    uint64_t double_frees = heap_remote_give_locked(h, &word);
    if (hk_unlikely(double_frees != 0))
        note_double_frees_locked(h, &word, cls, double_frees);
}

/* Its bits are back in the slab, or are of a slab that is gone: freed twice. */
static void lose_locked(heap_t *h, remote_entry_t *word) {
    hk_assert(hk_lock_is_held(&h->lock));
    h->double_frees.count += hk_popcount64(word->bits);
    hk_write(word->bits, 0);
}

/* From its end. Returns the heap to which the message goes on with the words that are left, or HK_OWNER_NONE. */
static uint32_t open_locked(heap_t *h, message_t *message) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(message_is_whole(message));
    uint32_t left = HK_OWNER_NONE;
    for (unsigned i = message->count; i-- > 0;) {
        __builtin_prefetch(heap_remote_slab(&message->words[i < WORDS_AHEAD ? 0 : i - WORDS_AHEAD]), 1);
        const remote_entry_t *word = &message->words[i];
        uint32_t owner = word->bits != 0 ? heap_remote_owner(word) : HK_OWNER_NONE;
        if (hk_likely(owner == h->front.id))
            take_in_locked(h, message, i);
        else if (owner == HK_OWNER_NONE)
            lose_locked(h, &message->words[i]);
        else
            left = owner;
    }
    return left;
}

void heap_drain_locked(heap_t *h) {
    hk_assert(hk_lock_is_held(&h->lock));
    if (hk_likely(atomic_load_explicit(&h->inbox, memory_order_relaxed) == NULL))
        return;
    atomic_store_explicit(&h->inbox_count, 0, memory_order_relaxed);
    /* Acquire: pairs with the release in push. */
    message_t *first = atomic_exchange_explicit(&h->inbox, NULL, memory_order_acquire);
    hk_write(h->opened, first);
    message_t *blanks = NULL, *last_blank = NULL;
    unsigned count = 0;
    for (; first != NULL; count++) {
        message_t *message = first;
        uint32_t left = open_locked(h, message);
        first = message->next;
        hk_write(h->opened, first);
        if (hk_likely(left == HK_OWNER_NONE)) {
            hk_write(message->next, blanks);
            blanks = message;
            last_blank = last_blank != NULL ? last_blank : message;
            continue;
        }
        hk_write(message->to, left);
        push(message);
    }
    if (blanks != NULL)
        blanks_give(h->front.id, blanks, last_blank);
    hk_count_by(remote_drains, count);
}

/* --- For reports -------------------------------------------------------------------------------------------------- */

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
