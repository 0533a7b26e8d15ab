/* SPDX-License-Identifier: MIT
 *
 * slots.pml: the slots of a superslab between the pool, the program and the kernel, beside a purge and a fork
 * (src/superslab/bins.c, purge.c, src/region/region.c, src/start/fork.c).
 *
 * One superslab of two slots. Two threads take and free slots, each twice; one of them keeps the last. The helper,
 * and a thread whose memory grows, give dirty slots back to the kernel, again and again. One thread forks at any moment
 * at which it gets the lock: from then on only the child goes on, and in it only the thread that forked.
 *
 *   take    (slots_alloc) lock; if the superslab is the region's, claim it: mapped, zeros (region_take, claim_locked);
 *           take a free slot; clean ones are said to be zeros; unlock
 *   free    (slots_free, pool_free_locked) lock; the slot is free and dirty; unlock
 *   purge   (purge: collect_locked) lock; dirty slots leave the pool (pool_take_locked), and are being purged; unlock;
 *           (purge_round) the kernel takes each one's pages; (return_locked) lock; they are free and clean; an empty
 *           superslab without a dirty slot goes back to the region: unmapped (close_superslab_locked); unlock
 *   fork    (fork_prepare: lock_all; fork_in_child: superslab_after_fork) what was being purged is free, and dirty
 *
 * Every step under the lock is one atomic statement, as nobody looks without it.
 *
 * Verified (tests/spin/verify.py, all interleavings):
 *   SLOTS-1  a slot is with one owner at a time, in the pool or being purged, and nowhere twice
 *   SLOTS-2  nobody touches, and nobody gives back to the kernel, what is not mapped or is another's
 *   SLOTS-3  what is said to be zeros is
 *   SLOTS-4  at the end every slot that nobody has is in the pool, or went with its superslab
 *
 * Seeded mistakes, each of which must be found: -DBUG_PURGE_IN_POOL (slots stay in the pool while they are purged),
 * -DBUG_CLOSE_PURGING (a superslab counts as empty while slots of it are being purged), -DBUG_FORK_LOSES (the child
 * does not take back what was being purged), -DBUG_FORK_CLEAN (it takes it for zeros), -DBUG_FREE_CLEAN (a freed slot
 * counts as clean), -DBUG_UNLOCKED_RETURN (purged slots come back before their pages have gone).
 */

#ifdef FULL
#define TURNS 3
#else
#define TURNS 2
#endif
#define SLOTS   2
#define USERS   2
#define PURGERS 2
#define NOBODY  255
#define POOL    254
#define PURGING 253

bool forked;              /* only the child goes on */
byte forker = NOBODY;     /* the thread of it that exists there */
bool mapped;              /* the superslab is ours */
byte where[SLOTS] = POOL; /* POOL, PURGING, or the user that has it; the pool's only while `mapped` */
bool dirty[SLOTS];        /* of those in the pool */
bool data[SLOTS];         /* what the kernel has there is not zeros */
bool is_over[USERS];
byte purgers_over;

#define GONE(me) (forked && forker != me)

/* Opens a step of `me`; who does not exist in the child has no next step. */
#define STEP(me)                                                                                                       \
    if                                                                                                                 \
    :: GONE(me) -> goto gone                                                                                           \
    :: else                                                                                                            \
    fi

inline close_if_empty() {
    if
#ifdef BUG_CLOSE_PURGING
    :: where[0] >= PURGING && where[1] >= PURGING && !dirty[0] && !dirty[1] -> mapped = false
#else
    :: where[0] == POOL && where[1] == POOL && !dirty[0] && !dirty[1] -> mapped = false
#endif
    :: else
    fi
}

inline take_back(at) {
    if
    :: where[at] == PURGING ->
#ifndef BUG_FORK_LOSES
       where[at] = POOL;
#endif
#ifdef BUG_FORK_CLEAN
       dirty[at] = false
#else
       dirty[at] = true
#endif
    :: else
    fi
}

inline open_if_the_regions() {
    if
    :: !mapped ->
       assert(where[0] == POOL && where[1] == POOL); /* SLOTS-2 */
       mapped = true;
       data[0] = false; data[1] = false; dirty[0] = false; dirty[1] = false
    :: else
    fi
}

active [USERS] proctype user() {
    byte slot, turns;
    bool zeros, may_fork;
    may_fork = _pid == 0;
    do
    :: turns < TURNS ->
       atomic {
           STEP(_pid);
           open_if_the_regions();
           slot = NOBODY;
           if
           :: where[0] == POOL -> slot = 0
           :: where[1] == POOL -> slot = 1
           :: else
           fi;
           if
           :: slot != NOBODY -> zeros = !dirty[slot]; dirty[slot] = false; where[slot] = _pid
           :: else -> break /* memory is out: the others have it, or the helper */
           fi
       }
       atomic {
           STEP(_pid);
           assert(mapped && where[slot] == _pid); /* SLOTS-1, SLOTS-2 */
           assert(!zeros || !data[slot]);         /* SLOTS-3 */
           data[slot] = true
       }
       atomic {
           STEP(_pid);
           assert(mapped && where[slot] == _pid && data[slot])
       }
       if
       :: turns == TURNS - 1 && _pid == 1 -> break /* keeps it */
       :: else
       fi;
       atomic {
           STEP(_pid);
           where[slot] = POOL;
#ifdef BUG_FREE_CLEAN
           dirty[slot] = false;
           close_if_empty()
#else
           dirty[slot] = true
#endif
       }
       turns++
    :: may_fork && turns < TURNS ->
       atomic { STEP(_pid); may_fork = false; forked = true; forker = _pid; take_back(0); take_back(1) }
    :: turns == TURNS -> break
    od;
    atomic {
        STEP(_pid);
        is_over[_pid] = true
    }
gone:
    skip
}

inline collect(at) {
    if
    :: where[at] == POOL && dirty[at] ->
#ifndef BUG_PURGE_IN_POOL
       where[at] = PURGING;
#endif
       dirty[at] = false; mine[at] = true
    :: else
    fi
}

inline purge(at) {
    atomic {
        STEP(_pid);
        if
        :: mine[at] -> assert(mapped && where[at] == PURGING); data[at] = false /* SLOTS-1, SLOTS-2 */
        :: else
        fi
    }
}

inline give_back(at) {
    if
    :: mine[at] -> where[at] = POOL
    :: else
    fi
}

active [PURGERS] proctype purger() {
    bool mine[SLOTS];
    do
    :: !(is_over[0] && is_over[1]) && !GONE(_pid) ->
       atomic { STEP(_pid); mine[0] = false; mine[1] = false; collect(0); collect(1) }
       if
       :: mine[0] || mine[1] ->
#ifdef BUG_UNLOCKED_RETURN
          atomic { STEP(_pid); give_back(0); give_back(1) }
#endif
          purge(0);
          purge(1);
          atomic { STEP(_pid); give_back(0); give_back(1); close_if_empty() }
       :: else
       fi
    :: (is_over[0] && is_over[1]) || GONE(_pid) -> break
    od;
gone:
    purgers_over++
}

/* SLOTS-4: nobody is in the allocator any more. What threads had that do not exist in the child stays theirs there. */
active proctype judge() {
    atomic {
        (is_over[0] || GONE(0)) && (is_over[1] || GONE(1)) && purgers_over == PURGERS;
        assert(where[0] != PURGING && where[1] != PURGING);
        assert(!is_over[0] || (where[0] != 0 && where[1] != 0));
        assert(mapped || (where[0] == POOL && where[1] == POOL))
    }
}
