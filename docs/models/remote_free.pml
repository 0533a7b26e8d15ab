/* SPDX-License-Identifier: MIT
 *
 * remote_free.pml: how a block freed by another thread finds its way home (src/slab/slab.h, src/heap/remote.c).
 *
 * Each slab has words of remote bits, a summary with one bit a word, an owner, and a link for the list of slabs that wait
 * at a heap. Any thread posts; the owner drains; a dying heap's slabs get a new owner at any moment.
 *
 *   post   old = fetch_or(word, bits); only if old == 0: s = fetch_or(summary, bit of the word); only if s == 0: push the
 *          slab on the list of the owner read just then (a compare-and-swap loop on the head)
 *   drain  list = exchange(head, none); for each slab, its link read first: if another heap owns it by now, push it there;
 *          else words = exchange(summary, 0), and for each of these bits = exchange(word, 0), merged into the free bits
 *
 * Every shared step is one atomic statement here; between any two, any other process may run. Two posters, two slabs of two
 * words of two blocks, two heaps: heap 0 loses one slab to heap 1, drains, dies and leaves it the other, while posts go on.
 *
 * Verified (tests/spin/verify.py, all interleavings):
 *   MODEL-1  every posted bit is merged exactly once, given that every list is drained in the end
 *   MODEL-2  a slab is on one list at most, and its link is not written while it is
 *   MODEL-3  only the owner merges
 *   MODEL-4  when all blocks of a slab are free (it may be closed and reused), no poster is still between two steps with it
 *   MODEL-5  a bit posted twice (-DDOUBLE_FREE) is seen exactly once: at the second post, or at the merge
 *
 * Seeded mistakes, each of which must be found: -DBUG_WORDS_FIRST (the drain clears the summary after the words),
 * -DBUG_LINK_LATE (it reads the link after the drain), -DBUG_PUSH_ALWAYS (a poster pushes whatever the summary says),
 * -DBUG_NO_FORWARD (a heap merges a slab that it no longer owns), -DBUG_ANNOUNCE_FIRST (the summary is set before the word).
 */

#define SLABS    2
#define WORDS    2
#define HEAPS    2
#define NONE     255
#define ALL_BITS 3

byte word[4];    /* word w of slab s is [s * WORDS + w] */
byte free_bits[4];
byte summary[SLABS];
byte owner[SLABS];
byte link[SLABS];
byte head[HEAPS] = NONE;

/* Ghosts: only assertions read them. */
bool on_list[SLABS];
byte posting[SLABS]; /* posters between their first and last step with the slab */
byte doubles;
byte done;
bool heap_0_dead;

inline push(slab, target, seen) {
    target = owner[slab];
    do
    :: seen = head[target];
       atomic { assert(!on_list[slab]); link[slab] = seen };  /* MODEL-2 */
       atomic {
           if
           :: head[target] == seen -> head[target] = slab; on_list[slab] = true; posting[slab]--; break
           :: else
           fi
       }
    od
}

/* Posts `bits` of word `w` of slab `s`. The counter posting[s] falls with the poster's last step. */
inline post(s, w, bits) {
#ifdef BUG_ANNOUNCE_FIRST
    atomic { posting[s]++; announced = summary[s]; summary[s] = summary[s] | (1 << w) };
    atomic { old = word[s * WORDS + w]; word[s * WORDS + w] = old | bits };
    if
    :: old & bits -> doubles++
    :: else
    fi;
    if
    :: announced == 0 -> push(s, target, seen)
    :: else -> posting[s]--
    fi;
#else
    atomic {
        old = word[s * WORDS + w];
        word[s * WORDS + w] = old | bits;
        doubles = doubles + ((old & bits) != 0);
        posting[s] = posting[s] + (old == 0)
    };
    if
    :: old == 0 ->
        atomic {
            announced = summary[s];
            summary[s] = announced | (1 << w);
#ifdef BUG_PUSH_ALWAYS
            announced = 0;
#endif
            if
            :: announced != 0 -> posting[s]--
            :: else
            fi
        };
        if
        :: announced == 0 -> push(s, target, seen)
        :: else
        fi
    :: else
    fi;
#endif
    old = 0; announced = 0; target = 0; seen = 0
}

inline merge_word(slab, w) {
    if
    :: words & (1 << w) ->
        atomic {
            bits = word[slab * WORDS + w];
            word[slab * WORDS + w] = 0;
            assert(owner[slab] == me);                                   /* MODEL-3 */
            doubles = doubles + ((free_bits[slab * WORDS + w] & bits) != 0);
            free_bits[slab * WORDS + w] = free_bits[slab * WORDS + w] | bits;
            bits = 0
        }
    :: else
    fi
}

inline may_close(slab) {
    atomic {
        if
        :: free_bits[slab * WORDS] == ALL_BITS && free_bits[slab * WORDS + 1] == ALL_BITS ->
            assert(posting[slab] == 0 && !on_list[slab]);                /* MODEL-4 */
            assert(summary[slab] == 0 && word[slab * WORDS] == 0 && word[slab * WORDS + 1] == 0)
        :: else
        fi
    }
}

inline take_off(slab, list) {
    atomic { list = link[slab]; on_list[slab] = false }
}

/* Drains the list of heap `from`, as heap `me`. */
inline drain(from) {
    atomic { list = head[from]; head[from] = NONE };
    do
    :: list == NONE -> break
    :: else ->
        slab = list;
#ifndef BUG_LINK_LATE
        take_off(slab, list);
#endif
        if
#ifndef BUG_NO_FORWARD
        :: owner[slab] != me ->
            posting[slab]++;
            push(slab, target, seen)
#else
        :: false
#endif
        :: else ->
#ifdef BUG_WORDS_FIRST
            words = summary[slab];
#else
            atomic { words = summary[slab]; summary[slab] = 0 };
#endif
            merge_word(slab, 0);
            merge_word(slab, 1);
#ifdef BUG_WORDS_FIRST
            summary[slab] = 0;
#endif
            words = 0;
#ifdef BUG_LINK_LATE
            take_off(slab, list);
#endif
            may_close(slab)
        fi;
        slab = 0; target = 0; seen = 0
    od
}

/* Every block is posted once: bit 0 of each word by the first poster, bit 1 by the second, in different order. */
active proctype first_poster() {
    byte old, announced, target, seen;
    post(0, 0, 1);
    post(1, 0, 1);
    post(0, 1, 1);
    done++
}

active proctype second_poster() {
    byte old, announced, target, seen;
    post(0, 0, 2);
    post(0, 1, 2);
    post(1, 0, 2);
#ifdef DOUBLE_FREE
    post(1, 0, 1);
#endif
    done++
}

active proctype heap_0() {
    byte me = 0, list, slab, words, bits, target, seen;
    drain(0);
    /* Its slabs go to heap 1 one by one, while others post to them: one is adopted, the heap drains once more (an owner
     * changes under the lock of the heap that drains, so not in the middle of a drain), dies, and leaves the other. */
    owner[0] = 1;
    drain(0);
    owner[1] = 1;
    atomic { heap_0_dead = true; list = 0 }
}

active proctype heap_1() {
    byte me = 1, list, slab, words, bits, target, seen;
    drain(1);
    heap_0_dead;
    drain(1);
    /* What was posted to the dead heap's list is passed on by whoever drains it now. */
    drain(0);
    done == 2;
    drain(0);
    drain(1);
    assert(head[0] == NONE && head[1] == NONE);
    assert(free_bits[0] == ALL_BITS && free_bits[1] == ALL_BITS && free_bits[2] == ALL_BITS);   /* MODEL-1 */
    assert(summary[0] == 0 && summary[1] == 0);
#ifdef DOUBLE_FREE
    assert(doubles == 1);                                                /* MODEL-5 */
#else
    assert(doubles == 0);
#endif
}
