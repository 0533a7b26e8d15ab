/* SPDX-License-Identifier: MIT
 *
 * explicit.pml: what becomes of the blocks of a heap that the program made, beside its end (src/heap/explicit.c,
 * src/slow/free.c).
 *
 * A slab of heap MADE has two blocks, both with the program. One thread frees block 0 and ends. Then, or meanwhile, the
 * heap ends:
 *
 *   destroy   when block 0 is free, as nobody may use blocks of the heap during it: lock, close the slab, unlock. The
 *             slot serves again: a slab of the next heap with that id, or of a thread, which hands out block 0. Block 1
 *             went with the heap; somebody frees it all the same, at any time from then on.
 *   release   at any time: lock, the slab becomes the shared heap's. Who takes over may hand out what is free.
 *
 * All the while the helper takes free blocks out of slabs, gives their pages back, and returns them.
 *
 *   free      entry = table; the thread has a lease of the heap (src/heap/lease.h): clear the live bit; into its
 *             magazine, without a lock. Else: clear the live bit; lock(owner of entry); if the entry is still that: set
 *             the free bit; unlock; else again as an ordinary block: those may be kept in a magazine or gathered, until
 *             the thread ends
 *   lease     whoever ends the heap revokes it under the lock, and says how. Its thread hands out what it has while the
 *             lease is bound; it gives that back under the lock if the lease is bound still; after a destroy it forgets
 *             it, after a release it gives it to whoever has the slab
 *
 * Every shared step is one atomic statement; between any two, any other process may run.
 *
 * Verified (tests/spin/verify.py, all interleavings):
 *   EXPLICIT-1  a block that was freed is in its slab's free bits once, or went with its slab: no free bit is set for a
 *               block that is with the program, whatever slab came to the slot
 *   EXPLICIT-2  only who holds the lock of the slab's owner writes free bits
 *   EXPLICIT-3  the late free of block 1 is found
 *
 * Seeded mistakes, each of which must be found: -DBUG_KEEP (the freed block waits in a magazine of a thread's heap),
 * -DBUG_GATHER (its word waits in a table, posted when the thread ends), -DBUG_LOOK_ONCE (no second look at the entry
 * under the lock), -DBUG_PURGE (the helper takes blocks of the heap in hand), -DBUG_STAY_BOUND (a destroy leaves leases
 * as they are), -DBUG_FORGET (what a lease has is forgotten after a release too), -DBUG_UNBIND_BLIND (no second look
 * under the lock at whether the lease is bound).
 */

#define NONE   0 /* owners: the slot is nobody's, */
#define SHARED 1 /* or the shared heap's, */
#define THREAD 2 /* a thread's, */
#define MADE   3 /* the explicit heap's: the first of that id, or the next */

byte owner = MADE;
byte generation; /* of the slab in the slot */
bool free_bit[2], live[2] = true;
byte with_program[2] = 1; /* blocks of this generation that the program has */
bool locked[4];
bool bound, forgets, in_lease; /* the lease of the thread that frees, its fate, and whether it holds block 0 */
bool again;                    /* the next heap has the same id */
bool block_0_free, ended, late_is_over, freer_is_over, found;

#define LOCK(heap)   atomic { !locked[heap] -> locked[heap] = true }
#define UNLOCK(heap) locked[heap] = false

/* One step of a process that holds `heap`: block `b` becomes free. */
#define SET_FREE(b, heap)                                                                                              \
    assert(owner == heap && locked[heap]); /* EXPLICIT-2 */                                                            \
    assert(!with_program[b]);              /* EXPLICIT-1 */                                                            \
    free_bit[b] = true

/* A free bit that is set already tells of a double free. */
inline give_or_find(b, heap) {
    atomic {
        if
        :: free_bit[b] -> found = true
        :: else -> SET_FREE(b, heap)
        fi
    }
}

/* What waited elsewhere comes to whoever owns the slot by now. */
inline give_later(b, heap) {
    do
    :: heap = owner;
       if
       :: heap == NONE -> found = true; break
       :: else -> LOCK(heap);
          if
          :: owner == heap ->
             atomic { if :: free_bit[b] -> found = true :: else -> SET_FREE(b, heap) fi };
             UNLOCK(heap);
             break
          :: else -> UNLOCK(heap)
          fi
       fi
    od
}

/* The free of an ordinary block: kept, or gathered, or given at once. */
inline free_ordinary(b, heap, waits) {
    if
    :: waits = true
    :: give_later(b, heap)
    fi
}

inline free_block(b, heap, was_live, waits, leased) {
    do
    :: heap = owner;
       leased = heap == MADE && bound && b == 0;
       if
       :: heap == NONE -> found = true; break /* no block here */
       :: else
       fi;
       atomic { was_live = live[b]; live[b] = false };
       if
       :: !was_live -> found = true; break
       :: else
       fi;
       if
       :: leased -> in_lease = true; break /* the lease may have been revoked since */
       :: else
       fi;
#ifdef BUG_KEEP
       waits = true; break;
#endif
#ifdef BUG_GATHER
       waits = true; break;
#endif
       if
       :: heap != MADE -> free_ordinary(b, heap, waits); break
       :: else
       fi;
       LOCK(heap);
       if
#ifndef BUG_LOOK_ONCE
       :: owner != heap -> UNLOCK(heap); free_ordinary(b, heap, waits); break
       :: else ->
#else
       :: true ->
#endif
          give_or_find(b, heap); UNLOCK(heap); break
       fi
    od
}

/* From the next heap of that id. */
inline take_from_lease() {
    atomic {
        if
        :: again && bound && in_lease -> in_lease = false; assert(!with_program[0]); with_program[0] = 1
        :: else
        fi
    }
}

inline end_lease(heap) {
    if
    :: bound -> LOCK(MADE);
       if
#ifndef BUG_UNBIND_BLIND
       :: bound && in_lease ->
#else
       :: in_lease ->
#endif
          in_lease = false; atomic { if :: free_bit[0] -> found = true :: else -> SET_FREE(0, MADE) fi }
       :: else
       fi;
       bound = false;
       UNLOCK(MADE)
    :: else
    fi;
    if
    :: in_lease && forgets -> in_lease = false
    :: in_lease && !forgets -> in_lease = false; give_later(0, heap)
    :: else
    fi
}

/* A thread, which may have a lease, frees block 0 and ends some time later. */
proctype freer() {
    byte heap;
    bool was_live, waits, leased;
    atomic { with_program[0] = 0 };
    free_block(0, heap, was_live, waits, leased);
    block_0_free = true;
    take_from_lease();
    if
    :: waits -> give_later(0, heap) /* the end of the thread */
    :: else
    fi;
    end_lease(heap);
    assert(!found || ended);
    freer_is_over = true
}

/* Block 1 after its heap was destroyed: a mistake, which is found. */
proctype late_freer() {
    byte heap;
    bool was_live, waits, leased;
    ended;
    found = false;
    free_block(1, heap, was_live, waits, leased);
    assert(found); /* EXPLICIT-3 */
    late_is_over = true
}

/* Free blocks leave the slab for a while. Not those of explicit heaps. */
proctype helper() {
    byte heap, taken;
    heap = owner;
    if
    :: heap == NONE -> goto over
#ifndef BUG_PURGE
    :: heap == MADE -> goto over
#endif
    :: else
    fi;
    LOCK(heap);
    atomic {
        if
        :: owner == heap && free_bit[0] -> free_bit[0] = false; taken = 1
        :: else
        fi
    };
    UNLOCK(heap);
    if
    :: taken -> give_later(0, heap)
    :: else
    fi;
over:
    skip
}

/* The slot serves again: the next heap of the id, or a thread, opens a slab and hands out block 0. */
inline open_again() {
    byte next;
    if
    :: next = MADE
    :: next = THREAD
    fi;
    LOCK(next);
    atomic { live[0] = false; live[1] = false; free_bit[0] = true; free_bit[1] = true };
    atomic { owner = next; generation++ };
    atomic { free_bit[0] = false; with_program[0] = 1; live[0] = true };
    UNLOCK(next);
    again = next == MADE
}

/* The end of the heap, with the lock. */
inline revoke(drop) {
    forgets = drop;
    bound = false
}

inline destroy() {
    LOCK(MADE);
#ifndef BUG_STAY_BOUND
    revoke(true);
#endif
    atomic { owner = NONE; with_program[1] = 0 };
    UNLOCK(MADE)
}

proctype destroyer() {
    block_0_free;
    destroy();
    run late_freer();
    ended = true;
    late_is_over;
    open_again();
    atomic { assert(with_program[0] && !free_bit[0]) }
}

/* The slot may serve again before the late free comes. */
proctype hasty_destroyer() {
    block_0_free;
    destroy();
    run late_freer();
    ended = true;
    open_again();
    late_is_over;
    atomic { assert(with_program[0] && !free_bit[0]) }
}

proctype releaser() {
    LOCK(MADE);
#ifdef BUG_FORGET
    revoke(true);
#else
    revoke(false);
#endif
    LOCK(SHARED);
    owner = SHARED;
    UNLOCK(SHARED);
    UNLOCK(MADE);
    freer_is_over;
    /* Nothing is lost. */
    LOCK(SHARED);
    atomic { assert(free_bit[0] || with_program[0]) };
    UNLOCK(SHARED)
}

init {
    atomic {
        if
        :: bound = true
        :: bound = false
        fi;
        run freer();
        if
        :: run destroyer(); run helper()
        :: run hasty_destroyer(); run helper()
        :: run releaser()
        fi
    }
}
