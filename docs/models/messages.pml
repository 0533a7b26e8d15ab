/* SPDX-License-Identifier: MIT
 *
 * messages.pml: how remote frees come home (src/heap/remote.c, src/heap/messages.c).
 *
 * A sender notes a word in its table. When it leaves the table it goes into the sender's message for the heap that owns
 * the slab, and the message is pushed on that heap's inbox. What no message takes goes to the slab under the lock of
 * its owner, which may be another one once the lock is there; and where the lock is taken, into a message of its own. A
 * heap takes its inbox by one exchange under its lock, brings the words of its slabs home, and passes a message with
 * others on. The memory of a message serves again at once.
 *
 *   add    the bits leave the table, then come into the message
 *   send   the message leaves the outbox; first = inbox; next = first; compare-and-swap(inbox, first, message), again
 *          until it succeeds
 *   give   to = owner; lock(to); if to is still the owner: into the free bits, else unlock and look again
 *   open   list = exchange(inbox, none); each word, its bits leaving the message first: if this heap owns the slab,
 *          into its free bits; then each message, its link read first, becomes free or is pushed on the inbox of the
 *          owner of a word that is left
 *
 * Every shared step is one atomic statement; between any two, any other process may run. Two senders, of two words and
 * of one, messages of two words, memory for two of them, two slabs, two heaps. Heap 1 adopts a slab of heap 0; heap 0
 * dies and leaves it the other; all the while words are on their way. Or heap 1's thread forks: it takes all locks, and
 * in the child nobody else exists; it sends what the tables and messages of the others hold, and takes over the slabs.
 *
 * Verified (tests/spin/verify.py, all interleavings):
 *   MESSAGE-1  every word comes home exactly once, given that every inbox is opened in the end; in the child of a fork
 *              at most once
 *   MESSAGE-2  a message is written only by who has it, and its link does not change while it is in an inbox
 *   MESSAGE-3  only who holds the lock of the slab's owner writes free bits
 *   MESSAGE-4  no message is lost: in the end the memory of all of them is free; in the child of a fork, of all that
 *              were in an inbox
 *
 * Seeded mistakes, each of which must be found: -DBUG_PLAIN_PUSH (the inbox is written without comparing),
 * -DBUG_LINK_LATE (the link is read when the message is on its way again, or free), -DBUG_NO_FORWARD (a heap takes in
 * words of slabs that it no longer owns), -DBUG_PLAIN_TAKE (the inbox is read and then cleared), -DBUG_WORD_STAYS (the
 * bits stay in a message that is passed on), -DBUG_LOOK_ONCE (no second look at the owner under the lock),
 * -DBUG_TABLE_LATE (the bits leave the table when they are in the message), -DBUG_OUTBOX_LATE (a message leaves the
 * outbox when it is in the inbox).
 */

#define SLABS    2
#define HEAPS    2
#define SENDERS  2
#define MESSAGES 2
#define WORDS    2
#define NONE     255

mtype = { IDLE, FILLING, SENT, OPENED };

mtype state[MESSAGES] = IDLE;
byte words[4]; /* bits of slab s in message m: [m * WORDS + s] */
byte to[MESSAGES];
byte next[MESSAGES];
byte inbox[HEAPS] = NONE;
bool locked[HEAPS];

byte table[4]; /* bits of slab s in the table of sender i: [i * SLABS + s] */
byte outbox[SENDERS] = NONE;

byte owner[SLABS];
byte free_bits[SLABS];
byte done;
bool heap_0_dead, forked;

/* One step of a process that holds the owner's lock. */
#define MERGE(s, bits, heap)                                                                                           \
    assert(owner[s] == heap && locked[heap]);        /* MESSAGE-3 */                                                   \
    assert((free_bits[s] & (bits)) == 0);            /* MESSAGE-1 */                                                   \
    free_bits[s] = free_bits[s] | (bits)

#define LOCK(heap) atomic { !locked[heap] -> locked[heap] = true }

inline push(message, target) {
    target = to[message];
    do
    :: first = inbox[target];
       atomic { assert(state[message] != SENT && state[message] != IDLE); next[message] = first };  /* MESSAGE-2 */
       atomic {
           if
#ifdef BUG_PLAIN_PUSH
           :: true -> inbox[target] = message; state[message] = SENT; break
#else
           :: inbox[target] == first -> inbox[target] = message; state[message] = SENT; break
           :: else
#endif
           fi
       }
    od;
    first = 0; target = 0
}

inline send(i) {
    if
    :: outbox[i] != NONE ->
        atomic {
            message = outbox[i];
#ifndef BUG_OUTBOX_LATE
            outbox[i] = NONE
#endif
        };
        push(message, target);
#ifdef BUG_OUTBOX_LATE
        outbox[i] = NONE;
#endif
    :: else
    fi;
    message = 0
}

/* Under the owner's lock; into a message of its own where the lock is taken and memory is there. */
inline give(s, bits) {
    do
    :: target = owner[s];
       if
       :: LOCK(target)
       :: atomic { locked[target] && state[0] == IDLE -> state[0] = FILLING; message = 0 };
          atomic { words[message * WORDS + s] = bits; to[message] = target };
          push(message, target);
          message = 0;
          break
       fi;
       if
#ifndef BUG_LOOK_ONCE
       :: owner[s] != target -> locked[target] = false
#endif
       :: else -> atomic { MERGE(s, bits, target); locked[target] = false }; break
       fi
    od;
    target = 0
}

/* What sender i's table has of slab s leaves it. A message is there, or is begun, or takes no word: any of it, at any
 * time. */
inline post(i, s) {
    atomic {
        bits = table[i * SLABS + s];
#ifndef BUG_TABLE_LATE
        table[i * SLABS + s] = 0;
#endif
        target = owner[s] /* the slot table, which may be out of date soon */
    };
    if
    :: atomic { outbox[i] == NONE && state[1] == IDLE -> state[1] = FILLING; to[1] = target; outbox[i] = 1 }
    :: outbox[i] != NONE && to[outbox[i]] == target
    :: give(s, bits); bits = 0
    fi;
    if
    :: bits != 0 -> atomic {
           assert(state[outbox[i]] == FILLING);                          /* MESSAGE-2 */
           words[outbox[i] * WORDS + s] = words[outbox[i] * WORDS + s] | bits
       }
    :: else
    fi;
#ifdef BUG_TABLE_LATE
    table[i * SLABS + s] = 0;
#endif
    atomic { bits = 0; target = 0 }
}

/* Takes in the words of the message that are of heap `from`'s slabs, one after the other; `left` is the owner of one
 * that is not. */
inline take_in(from, s) {
    atomic {
        bits = words[at * WORDS + s];
        if
        :: bits == 0
#ifdef BUG_NO_FORWARD
        :: else ->
#else
        :: bits != 0 && owner[s] != from -> left = owner[s]
        :: else ->
#endif
#ifndef BUG_WORD_STAYS
            words[at * WORDS + s] = 0;
#endif
            MERGE(s, bits, from)
        fi;
        bits = 0
    }
}

/* Opens the inbox of heap `from`, whose lock is held. */
inline open_locked(from) {
#ifdef BUG_PLAIN_TAKE
    list = inbox[from];
    inbox[from] = NONE;
#else
    atomic { list = inbox[from]; inbox[from] = NONE };
#endif
    do
    :: list == NONE -> break
    :: else ->
        at = list;
        atomic { assert(state[at] == SENT); state[at] = OPENED; left = NONE };
        take_in(from, 1);
        take_in(from, 0);
#ifndef BUG_LINK_LATE
        list = next[at];
#endif
        if
        :: left == NONE ->
#ifdef BUG_WORD_STAYS
            words[at * WORDS] = 0; words[at * WORDS + 1] = 0;
#endif
            atomic { assert(state[at] == OPENED); state[at] = IDLE }
        :: else -> to[at] = left; push(at, target)
        fi;
#ifdef BUG_LINK_LATE
        list = next[at];
#endif
        atomic { at = 0; left = 0 }
    od;
    list = 0
}

inline open(from) {
    LOCK(from);
    open_locked(from);
    locked[from] = false
}

active proctype first_sender() {
    byte bits, target, message, first;
    {
        atomic { table[0] = 1; table[1] = 1 };
        post(0, 0);
        post(0, 1);
        send(0);
        done++
    } unless { forked }
}

active proctype second_sender() {
    byte bits, target, message, first;
    {
        table[2] = 2;
        post(1, 0);
        send(1);
        done++
    } unless { forked }
}

/* Dies: opens its inbox, leaves heap 1 its slabs, under both locks, and opens it once more. */
active proctype heap_0() {
    byte bits, target, first, list, at, left;
    {
        LOCK(0);
        open_locked(0);
        LOCK(1);
        atomic { owner[0] = 1; owner[1] = 1; locked[1] = false };
        open_locked(0);
        locked[0] = false;
        heap_0_dead = true
    } unless { forked }
}

inline check_end() {
    assert(inbox[0] == NONE && inbox[1] == NONE);
    assert(!locked[0] && !locked[1])
}

active proctype heap_1() {
    byte bits, target, message, first, list, at, left;
    /* Adopts a slab of heap 0, whose lock it only tries, and opens that heap's inbox for it. */
    LOCK(1);
    if
    :: atomic { !locked[0] -> locked[0] = true };
        open_locked(0);
        owner[0] = 1;
        locked[0] = false
    :: true
    fi;
    locked[1] = false;
    if
    :: heap_0_dead && done == SENDERS ->
        /* Messages to the dead heap are opened by whoever holds its lock. */
        open(0);
        open(1);
        check_end();
        assert(free_bits[0] == 3 && free_bits[1] == 1);                  /* MESSAGE-1 */
        assert(state[0] == IDLE && state[1] == IDLE)                     /* MESSAGE-4 */
    :: atomic { !locked[0] && !locked[1] -> forked = true };
        post(0, 0);
        post(0, 1);
        send(0);
        post(1, 0);
        send(1);
        open(0);
        LOCK(0);
        LOCK(1);
        atomic { owner[0] = 1; owner[1] = 1; locked[1] = false };
        open_locked(0);
        locked[0] = false;
        open(1);
        check_end();
        assert(state[0] != SENT && state[0] != OPENED && state[1] != SENT && state[1] != OPENED)  /* MESSAGE-4 */
    fi
}
