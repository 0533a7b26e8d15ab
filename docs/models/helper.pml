/* SPDX-License-Identifier: MIT
 *
 * helper.pml: the helper's start, its leave, and a fork (src/helper/helper.c, src/sys/helper_thread.c).
 *
 * Two threads free memory, one of them twice, and call helper_wake after each; one thread forks. The helper goes
 * through rounds; after two without work it leaves.
 *
 *   free    memory waits (counted under a lock); helper_wake: if a helper is there (running, alive), nothing; else
 *           helper_start: try the door, and nothing when it is taken; if the last one has decided to leave, wait
 *           until its stack is free; if none is alive, launch_locked: running = 1, a new thread; unlock; once more when
 *           none is running by then and something waits
 *   helper  (helper_serve) a round takes what waits; two in succession that find nothing end it, and so does stop.
 *           (helper_run) running = 0; unless it was told to stop: if something waits and running is still 0, running
 *           is 1 again, and so on. Then it is gone: alive = 0 (the kernel, when the thread has left its stack)
 *   fork    (helper_before_fork) the door; comes_back = running; if alive: stop = 1, and wait until it is not;
 *           (helper_after_fork) in the parent: stop = 0; unlock; helper_wake. In the child (forget_threads) running and
 *           alive are 0, unlock, and nobody starts until memory is freed there
 *
 * Every shared step is one atomic statement; between any two, any other process may run. The wait for a stack is one
 * that ends: sys_helper_wait_a_moment gives up after its limit, and then memory waits for the next free.
 *
 * Verified (tests/spin/verify.py, all interleavings):
 *   HELPER-1  when all have ended, no memory waits that was there for the helper
 *   HELPER-2  there is one helper at most, and no two use the stack
 *   HELPER-3  between the two halves of a fork there is none
 *   HELPER-4  nobody waits for ever
 *
 * Seeded mistakes, each of which must be found: -DBUG_NO_LAST_LOOK (it leaves without looking once more),
 * -DBUG_START_ONCE (who starts it does not look whether one is running when the door is free again),
 * -DBUG_LOOK_FIRST (it looks before running is 0), -DBUG_STACK_IN_USE (the next one does not wait for the stack),
 * -DBUG_FORK_FORGETS (nobody looks after the fork what came in meanwhile), -DBUG_FORK_GOES_ON (the fork does not wait
 * until it has left).
 */

#ifdef FULL
#define TURNS 3
#else
#define TURNS 2
#endif
#define FREERS 2
#define IDLE_MAX 2

bool running, stop, locked;
byte alive;         /* helpers that use the stack */
byte waiting;       /* memory that nobody has given back yet */
bool forking;       /* between the two halves of a fork */
byte freers_over;
bool forker_is_over;

chan launch = [1] of { bit };

#define LOCK   atomic { !locked -> locked = true }
#define UNLOCK locked = false

inline launch_locked() {
    atomic {
        assert(alive == 0); /* HELPER-2 */
        assert(!forking);   /* HELPER-3 */
        stop = false;
        running = true;
        alive++
    }
    launch ! 1
}

inline helper_start() {
    do
    :: atomic { locked -> break } /* somebody starts one, or forks: they look themselves */
    :: atomic { !locked -> locked = true };
#ifndef BUG_STACK_IN_USE
       if
       :: !running -> alive == 0 /* sys_helper_wait_a_moment */
       :: running
       fi;
       if
       :: alive == 0 -> launch_locked()
       :: alive != 0
       fi;
#else
       if
       :: !running -> launch_locked()
       :: running
       fi;
#endif
       UNLOCK;
#ifndef BUG_START_ONCE
       if
       :: !running && waiting > 0
       :: running || waiting == 0 -> break
       fi
#else
       break
#endif
    od
}

inline helper_wake() {
    if
    :: running ->
       if
       :: alive != 0
       :: alive == 0 -> helper_start()
       fi
    :: !running -> helper_start()
    fi
}

active proctype helper() {
    byte idle;
    bool asked;
end_none:
    do
    :: launch ? 1 ->
serve:
       idle = 0;
       asked = false;
       do
       :: stop -> asked = true; break
       :: !stop && idle == IDLE_MAX -> break
       :: !stop && idle < IDLE_MAX ->
          atomic {
              if
              :: waiting > 0 -> waiting = 0; idle = 0
              :: else -> idle++
              fi
          }
       od;
#ifdef BUG_LOOK_FIRST
       if
       :: asked || waiting == 0 -> running = false; goto leave
       :: else -> goto serve
       fi;
#endif
       running = false;
#ifdef BUG_NO_LAST_LOOK
       goto leave;
#endif
       if
       :: asked || waiting == 0 -> goto leave
       :: else
       fi;
       if
       :: atomic { !running -> running = true }; goto serve
       :: running
       fi;
leave:
       atomic { assert(alive > 0); alive-- }
    od
}

active [FREERS] proctype freer() {
    byte turns;
    do
    :: turns < TURNS - (_pid == 2) ->
       atomic { waiting++; turns++ }
       helper_wake()
    :: turns == TURNS - (_pid == 2) -> break
    od;
    freers_over++
}

active proctype forker() {
    bool comes_back;
    LOCK;
    comes_back = running;
    if
    :: alive != 0 ->
       stop = true;
#ifndef BUG_FORK_GOES_ON
       alive == 0
#endif
    :: alive == 0
    fi;
    atomic { forking = true; assert(alive == 0) } /* HELPER-3 */
    /* In the child nothing is left but what comes next, with nobody beside it: the words are as at the start. */
    atomic { assert(locked); forking = false }
    stop = false;
    UNLOCK;
#ifndef BUG_FORK_FORGETS
    if
    :: comes_back || waiting > 0 -> helper_wake()
    :: !comes_back && waiting == 0
    fi;
#endif
    forker_is_over = true
}

/* HELPER-1. */
active proctype judge() {
    atomic {
        freers_over == FREERS && forker_is_over && alive == 0 && !locked;
        assert(waiting == 0)
    }
}
