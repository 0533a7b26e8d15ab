/* SPDX-License-Identifier: MIT
 *
 * What another thread does between two instructions of a free: in front of each of them once, as long as no lock is
 * held that the other would wait for. A slab that changes hands, an explicit heap that is released, a neighbour in the
 * same byte of live bits, a limit that is set: nothing is lost, and nothing found where it is not. Or a signal handler
 * that forks: the child allocates, and has no block twice.
 */
#include "core/panic.h"
#include "front/front.h"
#include "heap/explicit.h"
#include "heap/flush.h"
#include "heap/magazine.h"
#include "heap/messages.h"
#include "heap/runs.h"
#include "heap_places.h"
#include "map/meta.h"
#include "slow/hardened.h"
#include "steps.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLS = 20, STEPS_MAX = 100000 };

static void (*between)(void); /* what comes in between, */
static unsigned long at, now; /* ... in front of which instruction, counted from the call on until it came */
static bool done;

static heap_t *self, *other;

static bool is_free(const heap_t *h) { return atomic_load(&h->lock.word) == 0; }

static bool all_are_free(void) {
    hk_lock_t *locks[] = {&hk_superslab_lock, &hk_region_lock, &hk_meta_lock};
    bool are = is_free(self) && is_free(other) && is_free(heap_shared());
    for (unsigned i = 0; i < sizeof locks / sizeof *locks; i++)
        are &= atomic_load(&locks[i]->word) == 0;
    return are;
}

/* At the first moment from `at` on at which nobody has a lock that `between` needs. */
static void step(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    if (now++ < at || done || !all_are_free())
        return;
    done = true;
    steps_leave(context);
    between();
}

/* Once for each moment between two instructions of `what` at which it can be. */
static void for_each_step(void (*prepare)(void), void (*what)(void), void (*comes)(void), void (*look)(void)) {
    for (at = 0, done = true; done; at = now + STEPS_EACH - 1) {
        CHECK(at < STEPS_MAX);
        prepare();
        between = comes;
        done = false;
        now = 0;
        steps_begin();
        what();
        steps_end();
        bool came = done;
        if (!came)
            comes();
        look();
        done = came;
    }
    CHECK(at > 10);
    test_say("%lu steps\n", at);
}

static void *sleeper(void *unused) {
    other = heap_current();
    return unused;
}

/* Another thread's heap, which stays as it is while the thread waits. */
static void start(void) {
    pthread_t thread;
    self = start_heap();
    other = heap_shared();
    CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(other != NULL && other != self);
}

/* --- A slab changes hands ---------------------------------------------------------------------------------------- */

static remote_entry_t word;
static slab_t *slab;
static size_t before;
static uint64_t double_frees;

static void move(heap_t *from, heap_t *to) {
    hk_lock(&from->lock);
    heap_remove_locked(from, slab);
    slab_set_owner(slab, to->front.id);
    hk_unlock(&from->lock);
    hk_lock(&to->lock);
    heap_insert_locked(to, slab);
    hk_unlock(&to->lock);
}

static void to_the_pool(void) { move(other, heap_shared()); }

/* All of its blocks are out, so that the first one that comes back moves it from one list to another. */
static void full_slab(void) {
    granule_t all[4096];
    slab = slab_open(CLS, other->front.id, true);
    CHECK(slab != NULL);
    hk_lock(&other->lock);
    heap_insert_locked(other, slab);
    CHECK_EQ(slab_take(slab, all + slab->block_count, slab->block_count), slab->block_count);
    heap_settle_locked(other, slab);
    hk_unlock(&other->lock);
    word = (remote_entry_t){heap_remote_key(slab_base(slab), 0),
                            slab_stretch_bits(0, 0, slab->block_count < 64 ? slab->block_count : 64)};
}

static void give(void) { double_frees = heap_remote_give(&word); }

static void is_given_once(void) {
    CHECK_EQ(double_frees, 0);
    CHECK_EQ(atomic_load(&slab->owner), HK_OWNER_SHARED);
    CHECK_EQ(slab->free_bits[0], word.bits);
    CHECK_EQ(places_of(CLS).in_messages, 0);
    all_is_well();
    hk_lock(&heap_shared()->lock);
    slab_take_stretch(slab, 0, slab->block_count < 64 ? slab->block_count : 64);
    heap_settle_locked(heap_shared(), slab);
    hk_unlock(&heap_shared()->lock);
}

static void slab_changes_hands(void) {
    start();
    for_each_step(full_slab, give, to_the_pool, is_given_once);
}

/* --- A heap of the program's is released ------------------------------------------------------------------------- */

static void *block;

static void release_heap(void) {
    hk_lock(&hk_heap_list_lock);
    explicit_hand_over_locked(other);
    explicit_end_locked(other);
    hk_unlock(&hk_heap_list_lock);
}

static void make_one(void) {
    int error = 0;
    block_past_t past;
    other = explicit_make(NULL, 0, &error);
    CHECK(other != NULL);
    block = explicit_take(other, CLS, HK_ALIGNMENT, NULL, &past);
    CHECK(block != NULL);
    before = live_blocks(CLS);
}

static void make_large(void) {
    int error = 0;
    bool zeroed;
    other = explicit_make(NULL, 0, &error);
    CHECK(other != NULL);
    block = runs_take(other, HK_MIB, 1, NULL, &zeroed);
    CHECK(block != NULL);
}

static void free_it(void) { front_free(block); }

static void is_free_once(void) {
    heap_remote_post_all(self);
    CHECK(hk_trim_all() < HK_GIB);
    magazine_drop_all(self);
    heap_lock(heap_shared());
    heap_drain_locked(heap_shared());
    heap_unlock(heap_shared());
    CHECK(map_lookup(block) >> 8 != other->own.id);
    CHECK_EQ(live_blocks(CLS), 0);
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

static void heap_is_released(void) {
    start();
    for_each_step(make_one, free_it, release_heap, is_free_once);
    for_each_step(make_large, free_it, release_heap, is_free_once);
}

/* --- Neighbours in one byte of live bits ------------------------------------------------------------------------- */

enum { PAIRS = 8 };

static char *left, *right;
static unsigned cls;

/* The other thread's free of the neighbour has come so far that it clears the bit. */
static void neighbour_is_freed(void) { CHECK(map_clear_live_shared(map_granule(right))); }

static void two_in_a_byte(void) {
    left = right = NULL;
    for (unsigned i = 0; i < 100 && right == NULL; i++) {
        char *next = magazine_alloc(other, cls);
        if (left != NULL && map_granule(next) / 8 == map_granule(left) / 8)
            right = next;
        else
            left = next;
    }
    CHECK(right != NULL);
}

static void free_left(void) { front_free(left); }

static void both_are_free(void) {
    CHECK(!map_is_live(map_granule(left)) && !map_is_live(map_granule(right)));
    const remote_entry_t of_right = heap_remote_word(right, cls);
    CHECK_EQ(heap_remote_give(&of_right), 0);
    /* The left one too comes home, or there would be only right ones to take after a while. */
    heap_remote_post_all(self);
    heap_lock(other);
    heap_drain_locked(other);
    heap_unlock(other);
    CHECK_EQ(hk_misuse_count(), 0);
}

static void neighbours(void) {
    start();
    for (cls = 0; cls < 7; cls++)
        for_each_step(two_in_a_byte, free_left, neighbour_is_freed, both_are_free);
}

/* At a hardened level a clear live bit is proof of a double free, but for a run whose heap lets go of it. */
static void hardened_heap_is_released(void) {
    CHECK(setenv("HAKMEM_SAFE", "3", 1) == 0);
    start();
    CHECK(hardened_is_on());
    for_each_step(make_large, free_it, release_heap, is_free_once);
}

/* --- A signal handler forks -------------------------------------------------------------------------------------- */

enum { SMALL = 320, TAKEN = 50 };

static void *kept;

static void use_all_of_it(void) {
    char *taken[TAKEN];
    for (unsigned i = 0; i < TAKEN; i++) {
        taken[i] = front_malloc(SMALL);
        CHECK(taken[i] != NULL && taken[i] != kept);
        memset(taken[i], (int)i, SMALL);
    }
    for (unsigned i = 0; i < TAKEN; i++) {
        for (unsigned k = 0; k < SMALL; k++)
            CHECK_EQ(taken[i][k], i);
        front_free(taken[i]);
    }
    CHECK_EQ(hk_misuse_count(), 0);
}

static void fork_one(void) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        use_all_of_it();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void leave_in_magazine(unsigned count) {
    front_free(front_malloc(SMALL));
    magazine_flush(self, cls, (unsigned)heap_magazine_count(self, cls) - count);
    CHECK_EQ(heap_magazine_count(self, cls), count);
}

static void leave_one(void) { leave_in_magazine(1); }

static void leave_none(void) {
    block = front_malloc(SMALL);
    leave_in_magazine(0);
}

static void malloc_last(void) { block = front_malloc(SMALL); }
static void malloc_last_slowly(void) { block = magazine_alloc(self, cls); }
static void free_first(void) { front_free(block); }

static void goes_on(void) {
    use_all_of_it();
    all_is_well();
}

static void block_is_its_own(void) {
    kept = block;
    goes_on();
    kept = NULL;
    front_free(block);
}

static void handler_forks(void) {
    start();
    cls = class_of(SMALL);
    for_each_step(leave_one, malloc_last, fork_one, block_is_its_own);
    for_each_step(leave_one, malloc_last_slowly, fork_one, block_is_its_own);
    for_each_step(leave_none, free_first, fork_one, goes_on);
}

/* --- A signal handler forks, and its child goes on ---------------------------------------------------------------- */

enum { WAITING = 80 };

static void *mine;
static bool is_child;

static void fill_queue(void) {
    char *blocks[WAITING];
    for (unsigned i = 0; i < WAITING; i++)
        CHECK((blocks[i] = heap_malloc_slow(HK_MIB)) != NULL);
    for (unsigned i = 0; i < WAITING; i++)
        front_free(blocks[i]);
}

static void fork_and_take(void) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    is_child = child == 0;
    if (is_child)
        mine = heap_malloc_slow(HK_MIB);
    else
        CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void malloc_large(void) { block = heap_malloc_slow(HK_MIB); }

static void each_has_its_own(void) {
    CHECK(block != NULL && block != mine);
    if (is_child)
        _exit(0);
    front_free(block);
    CHECK_EQ(hk_misuse_count(), 0);
}

static void hardened_handler_forks(void) {
    CHECK(setenv("HAKMEM_SAFE", "2", 1) == 0);
    start();
    for_each_step(fill_queue, malloc_large, fork_and_take, each_has_its_own);
}

int main(void) {
    steps_init(step);
    in_child(hardened_handler_forks);
    in_child(hardened_heap_is_released);
    in_child(handler_forks);
    in_child(slab_changes_hands);
    in_child(heap_is_released);
    in_child(neighbours);
    return CHECK_PASS;
}
