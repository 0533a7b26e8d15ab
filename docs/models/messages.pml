/* SPDX-License-Identifier: MIT
 *
 * messages.pml: how words of remote frees travel from heap to heap (src/heap/messages.c).
 *
 * A sender looks up who owns the slab, puts the word into its message for that heap, and pushes a full message on the heap's
 * inbox; the heap takes its inbox by one exchange, brings each word home, and gives the messages' memory back, which a
 * sender may use again at once.
 *
 *   send   first = inbox; next = first; compare-and-swap(inbox, first, message), again until it succeeds
 *   open   list = exchange(inbox, none); each word: if this heap owns the slab, into its free bits, else posted to the slab (that
 *          is remote_free.pml, and one step here); then each message, its link read first, becomes free
 *
 * Every shared step is one atomic statement; between any two, any other process may run. Two senders of two words each, messages
 * of one word, memory for three of them, two slabs, two heaps: heap 0 loses one slab to heap 1, opens its inbox, dies and leaves
 * it the other, while words for it are still on their way.
 *
 * Verified (tests/spin/verify.py, all interleavings):
 *   MESSAGE-1  every word comes home exactly once, given that every inbox is opened in the end
 *   MESSAGE-2  a message is written only by the sender that fills it, and its link does not change while it is in an inbox
 *   MESSAGE-3  only the slab's owner merges
 *   MESSAGE-4  no message is lost: in the end the memory of all of them is free
 *
 * Seeded mistakes, each of which must be found: -DBUG_PLAIN_PUSH (the inbox is written without comparing), -DBUG_LINK_LATE (the
 * link is read when the message's memory is free already), -DBUG_NO_FORWARD (a heap merges into a slab that it no longer
 * owns), -DBUG_PLAIN_TAKE (the inbox is read and then cleared).
 */

#define SLABS    2
#define HEAPS    2
#define MESSAGES 3
#define NONE     255

mtype = { IDLE, FILLING, SENT, OPENED };

mtype state[MESSAGES] = IDLE;
byte slab_of[MESSAGES], bit_of[MESSAGES]; /* the word */
byte next[MESSAGES];
byte inbox[HEAPS] = NONE;

byte owner[SLABS];
byte posted[SLABS];    /* the slabs' remote bits: remote_free.pml */
byte free_bits[SLABS];
byte done;
bool heap_0_dead;

/* Memory from those that are free; waits for some, where the allocator would post to the slab instead. */
inline begin(message) {
    if
    :: atomic { state[0] == IDLE -> state[0] = FILLING; message = 0 }
    :: atomic { state[1] == IDLE -> state[1] = FILLING; message = 1 }
    :: atomic { state[2] == IDLE -> state[2] = FILLING; message = 2 }
    fi
}

inline send(s, b) {
    to = owner[s];                                                       /* the slot table, which may be out of date soon */
    begin(message);
    atomic {
        assert(state[message] == FILLING);                               /* MESSAGE-2 */
        slab_of[message] = s;
        bit_of[message] = b
    };
    do
    :: first = inbox[to];
       atomic { assert(state[message] == FILLING); next[message] = first };  /* MESSAGE-2 */
       atomic {
           if
#ifdef BUG_PLAIN_PUSH
           :: true -> inbox[to] = message; state[message] = SENT; break
#else
           :: inbox[to] == first -> inbox[to] = message; state[message] = SENT; break
           :: else
#endif
           fi
       }
    od;
    to = 0; message = 0; first = 0
}

inline bring_home(m) {
    atomic {
        assert(state[m] == SENT);
        state[m] = OPENED;
        if
#ifndef BUG_NO_FORWARD
        :: owner[slab_of[m]] != me -> posted[slab_of[m]] = posted[slab_of[m]] | bit_of[m]
#else
        :: false
#endif
        :: else ->
            assert(owner[slab_of[m]] == me);                             /* MESSAGE-3 */
            assert((free_bits[slab_of[m]] & bit_of[m]) == 0);            /* MESSAGE-1 */
            free_bits[slab_of[m]] = free_bits[slab_of[m]] | bit_of[m]
        fi
    }
}

/* Opens the inbox of heap `from`, as heap `me`: under that heap's lock, so one at a time. */
inline open(from) {
#ifdef BUG_PLAIN_TAKE
    list = inbox[from];
    inbox[from] = NONE;
#else
    atomic { list = inbox[from]; inbox[from] = NONE };
#endif
    at = list;
    do
    :: at == NONE -> break
    :: else -> bring_home(at); at = next[at]
    od;
    do
    :: list == NONE -> break
    :: else ->
#ifdef BUG_LINK_LATE
        atomic { assert(state[list] == OPENED); state[list] = IDLE };
        list = next[list]
#else
        at = list;
        list = next[list];
        atomic { assert(state[at] == OPENED); state[at] = IDLE }
#endif
    od;
    at = 0
}

inline drain_posts(s) {
    atomic {
        if
        :: owner[s] == me ->
            assert((free_bits[s] & posted[s]) == 0);                     /* MESSAGE-1 */
            free_bits[s] = free_bits[s] | posted[s];
            posted[s] = 0
        :: else
        fi
    }
}

active proctype first_sender() {
    byte to, message, first;
    send(0, 1);
    send(1, 1);
    done++
}

active proctype second_sender() {
    byte to, message, first;
    send(1, 2);
    send(0, 2);
    done++
}

active proctype heap_0() {
    byte me = 0, list, at;
    open(0);
    /* Its slabs go to heap 1 one by one: one is adopted, the heap opens its inbox once more (an owner changes under the lock of the
     * heap that opens, so not in the middle of it), dies, and leaves the other. */
    owner[0] = 1;
    open(0);
    owner[1] = 1;
    atomic { heap_0_dead = true; list = 0 }
}

active proctype heap_1() {
    byte me = 1, list, at;
    open(1);
    heap_0_dead;
    /* Messages to the dead heap are opened by whoever holds its lock; all the same, whose the slab is by now decides. */
    do
    :: done == 2 -> break
    :: open(0)
    :: open(1)
    od;
    open(0);
    open(1);
    drain_posts(0);
    drain_posts(1);
    assert(inbox[0] == NONE && inbox[1] == NONE);
    assert(free_bits[0] == 3 && free_bits[1] == 3);                      /* MESSAGE-1 */
    assert(state[0] == IDLE && state[1] == IDLE && state[2] == IDLE)     /* MESSAGE-4 */
}
