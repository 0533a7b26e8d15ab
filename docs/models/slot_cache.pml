/* SPDX-License-Identifier: MIT
 *
 * slot_cache.pml: the slots that a heap keeps of its runs, between its thread, one that frees what it took, upkeep, and
 * a fork without a lock (src/heap/slot_cache.c).
 *
 * Two superslabs of two slots each, and one word of the heap: a superslab, a mask of its slots, and whether these are
 * fresh. The heap's thread takes runs, of one slot or two, uses them, and frees them or hands them to the other thread,
 * which frees them. Upkeep takes the word away, again and again. One thread forks at any moment, without a lock: from
 * then on only the child goes on, and in it only that thread.
 *
 *   take     (take: place_for, cut) read the word; compare-exchange a slot off it; the slot becomes a run (large_begin)
 *   extend   (slot_cache_extend) as take, of the slot behind the run, for the run
 *   visit    (large_alloc_with_spare, put) lock; take a slot of the pool, and the one beside it as a spare; unlock; put
 *   free     (large_end, put) the run is one no more: its record, then the slot table; put each slot of it
 *   put      read the word; compare-exchange it for one that has the slot too, or, where it has slots of another
 *            superslab, for one that has nothing else: what it had goes to the pool. Fresh with used is used
 *   give     (slot_cache_give_back) exchange the word for 0; its slots go to the pool: dirty, or as they came
 *
 * What a lock guards is one atomic statement, and so is each operation on the word.
 *
 * Verified (tests/spin/verify.py, all interleavings):
 *   CACHE-1  a slot is in one place: in the pool, in the word, with a run, or on its way between two of them
 *   CACHE-2  what is said to be zeros is
 *   CACHE-3  a live run is in the slot table
 *   CACHE-4  at the end no slot is lost; of a child, none but those that were on their way with threads it has not
 *
 * Seeded mistakes, each of which must be found: -DBUG_CUT_STORES (a run is cut off by a store), -DBUG_CUT_MASK (the
 * compare-exchange looks at the mask alone), -DBUG_GIVE_STORES (the word is read, and then 0 is stored),
 * -DBUG_PUT_FIRST (slots are put before the slot table has lost the run), -DBUG_FRESH_JOINS (a used slot joins fresh
 * ones, and all count as fresh), -DBUG_DISPLACED (what the word had is forgotten).
 */

#ifdef FULL
#define TURNS  3
#define ROUNDS 2
#else
#define TURNS  2
#define ROUNDS 1
#endif
#define SLOTS    4
#define OWNER    0
#define OTHER    1
#define UPKEEP   2
#define NOBODY   255
#define POOL     254
#define WORD     253
#define MOVING   252 /* between two places */
#define BESIDE(slot) ((slot) ^ 1)
#define BIT(slot)    (1 << ((slot) % 2))

typedef word_t {
    byte superslab, mask;
    bool fresh
};

bool forked;
byte forker = NOBODY;
word_t word;
byte where[SLOTS] = POOL; /* POOL, WORD, MOVING, or the slot that the run begins with */
byte mover[SLOTS] = NOBODY;
bool marked[SLOTS]; /* the slot table has a run there */
bool data[SLOTS];   /* not zeros */
bool dirty[SLOTS];  /* of those in the pool */
byte letter = NOBODY, letter_size; /* a run for the other thread */
bool owner_is_over, other_is_over;
byte over;

#define GONE(me) (forked && forker != me)

/* Opens a step of `me`; who does not exist in the child has no next step. */
#define STEP(me)                                                                                                       \
    if                                                                                                                 \
    :: GONE(me) -> goto gone                                                                                           \
    :: else                                                                                                            \
    fi

inline move(m_slot, m_from, m_who) {
    assert(where[m_slot] == m_from); /* CACHE-1 */
    where[m_slot] = MOVING;
    mover[m_slot] = m_who
}

inline arrive(a_slot, a_at) {
    assert(where[a_slot] == MOVING); /* CACHE-1 */
    where[a_slot] = a_at;
    mover[a_slot] = NOBODY
}

/* Under the pool's lock. */
inline to_pool(t_slot, t_dirty) {
    arrive(t_slot, POOL);
    dirty[t_slot] = t_dirty
}

/* The slots of a word that `me` took away go to the pool: one visit. */
inline word_to_pool(w_who, w_what) {
    atomic {
        STEP(w_who);
        if
        :: w_what.mask & 1 -> to_pool(w_what.superslab * 2, !w_what.fresh)
        :: else
        fi;
        if
        :: w_what.mask & 2 -> to_pool(w_what.superslab * 2 + 1, !w_what.fresh)
        :: else
        fi
    }
}

inline move_word(v_who, v_what) {
    if
    :: v_what.mask & 1 -> move(v_what.superslab * 2, WORD, v_who)
    :: else
    fi;
    if
    :: v_what.mask & 2 -> move(v_what.superslab * 2 + 1, WORD, v_who)
    :: else
    fi
}

inline read_word(r_who, r_to) {
    atomic { STEP(r_who); r_to.superslab = word.superslab; r_to.mask = word.mask; r_to.fresh = word.fresh }
}

#ifdef BUG_CUT_MASK
#define SAME(seen) (word.mask == seen.mask)
#else
#define SAME(seen) (word.mask == seen.mask && word.superslab == seen.superslab && word.fresh == seen.fresh)
#endif

/* `slot` is on its way with `me`. */
inline put(p_who, p_slot, p_fresh, p_seen, p_out) {
    p_out.mask = 0;
    do
    :: read_word(p_who, p_seen);
       atomic {
           STEP(p_who);
           if
           :: !SAME(p_seen) -> skip
           :: else ->
              if
              :: p_seen.mask != 0 && p_seen.superslab == p_slot / 2 ->
                 word.mask = p_seen.mask | BIT(p_slot);
#ifdef BUG_FRESH_JOINS
                 word.fresh = p_seen.fresh
#else
                 word.fresh = p_seen.fresh && p_fresh
#endif
              :: else ->
                 p_out.superslab = p_seen.superslab;
                 p_out.mask = p_seen.mask;
                 p_out.fresh = p_seen.fresh;
                 move_word(p_who, p_seen);
                 word.superslab = p_slot / 2;
                 word.mask = BIT(p_slot);
                 word.fresh = p_fresh
              fi;
              arrive(p_slot, WORD);
              break
           fi
       }
    od;
#ifndef BUG_DISPLACED
    if
    :: p_out.mask != 0 -> word_to_pool(p_who, p_out)
    :: else
    fi
#endif
}

/* A run of `size` slots from `first` on is freed. */
inline free_run(f_who, f_first, f_size, f_seen, f_out) {
    atomic {
        STEP(f_who);
        assert(marked[f_first]); /* CACHE-3 */
#ifndef BUG_PUT_FIRST
        marked[f_first] = false;
#endif
        move(f_first, f_first, f_who);
        if
        :: f_size == 2 -> move(BESIDE(f_first), f_first, f_who)
        :: else
        fi
    }
    put(f_who, f_first, false, f_seen, f_out);
#ifdef BUG_PUT_FIRST
    atomic { STEP(f_who); marked[f_first] = false }
#endif
    if
    :: f_size == 2 -> put(f_who, BESIDE(f_first), false, f_seen, f_out)
    :: else
    fi
}

/* Cuts a slot off the word: `slot` is it then, or NOBODY. With `wanted` it must be that one. */
inline cut(c_who, c_wanted, c_slot, c_zeros, c_seen) {
    do
    :: read_word(c_who, c_seen);
       c_slot = NOBODY;
       if
       :: c_seen.mask & 1 && (c_wanted == NOBODY || c_wanted == c_seen.superslab * 2) -> c_slot = c_seen.superslab * 2
       :: c_seen.mask & 2 && (c_wanted == NOBODY || c_wanted == c_seen.superslab * 2 + 1) ->
          c_slot = c_seen.superslab * 2 + 1
       :: else -> break
       fi;
       atomic {
           STEP(c_who);
           if
#ifdef BUG_CUT_STORES
           :: true ->
              word.superslab = c_seen.superslab;
              word.fresh = c_seen.fresh;
#else
           :: SAME(c_seen) ->
#endif
              word.mask = c_seen.mask & ~BIT(c_slot);
              c_zeros = c_seen.fresh;
              move(c_slot, WORD, c_who);
              break
#ifndef BUG_CUT_STORES
           :: else
#endif
           fi
       }
    od
}

inline use(u_slot) {
    assert(!zeros || !data[u_slot]); /* CACHE-2 */
    data[u_slot] = true
}

active proctype owner() {
    byte slot, more, turns, size;
    bool zeros, may_fork = true;
    word_t seen, displaced;
    do
    :: turns < TURNS ->
       turns++;
       cut(OWNER, NOBODY, slot, zeros, seen);
       if
       :: slot == NOBODY ->
          atomic { /* visit */
              STEP(OWNER);
              more = NOBODY;
              if
              :: where[0] == POOL -> slot = 0
              :: where[2] == POOL -> slot = 2
              :: where[1] == POOL -> slot = 1
              :: where[3] == POOL -> slot = 3
              :: else -> break /* memory is out */
              fi;
              zeros = !dirty[slot];
              move(slot, POOL, OWNER);
              if
              :: where[BESIDE(slot)] == POOL -> more = BESIDE(slot); move(more, POOL, OWNER)
              :: true
              fi
          }
          if
          :: more != NOBODY -> put(OWNER, more, !dirty[more], seen, displaced)
          :: else
          fi
       :: else
       fi;
       atomic { STEP(OWNER); arrive(slot, slot); marked[slot] = true; size = 1; use(slot) }
       if
       :: slot % 2 == 0 -> /* extend */
          cut(OWNER, slot + 1, more, zeros, seen);
          if
          :: more != NOBODY -> atomic { STEP(OWNER); arrive(more, slot); size = 2; use(more) }
          :: else
          fi
       :: true
       fi;
       atomic { STEP(OWNER); assert(marked[slot] && where[slot] == slot && (size == 1 || where[slot + 1] == slot)) }
       if
       :: atomic { letter == NOBODY -> STEP(OWNER); letter = slot; letter_size = size }
       :: free_run(OWNER, slot, size, seen, displaced)
       fi
    :: may_fork && turns < TURNS -> atomic { STEP(OWNER); may_fork = false; forked = true; forker = OWNER }
    :: turns == TURNS -> break
    od;
gone:
    atomic { owner_is_over = true; over++ }
}

active proctype other() {
    byte first, size;
    bool may_fork = true;
    word_t seen, displaced;
    do
    :: atomic { letter != NOBODY -> STEP(OTHER); first = letter; size = letter_size; letter = NOBODY }
       free_run(OTHER, first, size, seen, displaced)
    :: may_fork -> atomic { STEP(OTHER); may_fork = false; forked = true; forker = OTHER }
    :: atomic { letter == NOBODY && owner_is_over -> break }
    :: GONE(OTHER) -> break
    od;
gone:
    atomic { other_is_over = true; over++ }
}

active proctype upkeep() {
    word_t had;
    byte rounds;
    do
    :: rounds < ROUNDS ->
       rounds++;
#ifdef BUG_GIVE_STORES
       read_word(UPKEEP, had);
       atomic { STEP(UPKEEP); word.mask = 0; move_word(UPKEEP, had) }
#else
       atomic {
           STEP(UPKEEP);
           had.superslab = word.superslab; had.mask = word.mask; had.fresh = word.fresh;
           word.mask = 0;
           move_word(UPKEEP, had)
       }
#endif
       word_to_pool(UPKEEP, had)
    :: rounds == ROUNDS || GONE(UPKEEP) -> break
    od;
gone:
    over++
}

/* CACHE-1, CACHE-4: nobody is at work any more. */
active proctype judge() {
    byte at;
    atomic {
        over == 3;
        do
        :: at < SLOTS ->
           assert(where[at] != MOVING || GONE(mover[at]));
           assert((where[at] == WORD) == (word.mask != 0 && word.superslab == at / 2 && (word.mask & BIT(at)) != 0));
           assert(where[at] != WORD || !word.fresh || !data[at]);
           at++
        :: else -> break
        od
    }
}
