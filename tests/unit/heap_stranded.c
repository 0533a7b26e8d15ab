/* SPDX-License-Identifier: MIT
 *
 * A child in which a lock is held by nobody who is there (start/fork.h): one made without fork handlers while another
 * thread held it, and one made by a signal handler that interrupted malloc. It allocates, frees and asks on, from the
 * emergency arena, and never waits. Once the lock is free it is back on its heap. A child that no lock is held in goes
 * on as if its fork handlers had run.
 */
#include "front/front.h"
#include "start/emergency.h"
#include "start/fork.h"
#include "upkeep/life.h"
#include "upkeep/record.h"
#include "heap_places.h"
#include "large/huge.h"
#include "map/meta.h"
#include "superslab/superslab.h"
#include "sys/confined.h"
#include "watch/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

enum { CLS = 5, BLOCKS = 300, LARGE = 400000, HANG_SECONDS = 60 };

static heap_t *main_heap;
static void *small_block, *large_block, *huge_block;

/* Without libc, so without fork handlers. */
static pid_t raw_fork(void) { return (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, 0UL, 0UL, 0UL, 0UL); }

static void wait_for(pid_t child) {
    int status = 1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
}

static bool is_emergency(const void *block) { return emergency_size(block) != 0; }

static void allocates_and_frees(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = 1 + i * i * 7;
        char *p = heap_calloc_slow(size), *q = heap_malloc_slow(size), *r = heap_aligned(4096, size);
        CHECK(is_emergency(p) && is_emergency(q) && is_emergency(r) && (uintptr_t)r % 4096 == 0);
        CHECK(p[0] == 0 && p[size - 1] == 0);
        memset(q, 1, size);
        q = heap_realloc(q, 2 * size, NULL);
        CHECK(is_emergency(q) && q[0] == 1 && q[size - 1] == 1);
        CHECK(heap_usable_size(q, NULL) >= 2 * size);
        release(p);
        heap_free_sized(r, 4096, size, "free");
        front_free(q);
    }
}

static void uses_what_it_inherited(const hk_lock_t *held) {
    char *copy = heap_realloc(small_block, 5000, NULL);
    CHECK(is_emergency(copy) && copy[0] == 's');
    CHECK_EQ(heap_usable_size(large_block, NULL) >= LARGE, 1);
    char *larger = heap_realloc(large_block, 2 * LARGE, NULL);
    CHECK(is_emergency(larger) && larger[0] == 'l');
    front_free(copy);
    front_free(larger);
    void *shrunk = heap_realloc(huge_block, 100, NULL);
    CHECK(held == &hk_huge_lock ? shrunk == NULL && errno == ENOMEM : shrunk == huge_block);
    front_free(shrunk);
    front_free(NULL);
}

static void is_stranded(const hk_lock_t *held) {
    alarm(HANG_SECONDS);
    CHECK(heap_current() == NULL && hk_front == &hk_no_heap);
    CHECK_EQ(sys_process_mark(), SYS_MARK_STRANDED);
    allocates_and_frees();
    uses_what_it_inherited(held);
    CHECK_EQ(hk_trim_all(), 0);
    CHECK_EQ(hk_check_all(), 0);
    heap_memory_freed_much();
    heap_tick(main_heap);
    heap_remote_post_all(main_heap);
}

static void is_back(void) {
    void *from_pool = emergency_alloc(100, 16);
    CHECK(heap_current() == main_heap && hk_front == &main_heap->front);
    CHECK_EQ(sys_process_mark(), SYS_MARK_KNOWN);
    void *block = front_malloc(100);
    CHECK(block != NULL && !is_emergency(block));
    front_free(block);
    front_free(from_pool); /* what it took meanwhile */
    all_is_well();
}

/* Another thread of the parent has the lock: in the child nobody has it, for ever. */
static void without_handlers(hk_lock_t *lock) {
    hk_lock(lock);
    pid_t child = raw_fork();
    if (child == 0) {
        is_stranded(lock);
        hk_unlock(lock);
        is_back();
        _exit(CHECK_PASS);
    }
    hk_unlock(lock);
    wait_for(child);
}

/* The first slow step that a child takes is that of a free with a size. */
static void frees_with_sizes_first(void) {
    enum { COUNT = 200, SIZE = 3000 };
    static void *blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        CHECK((blocks[i] = front_malloc(SIZE)) != NULL);
    hk_lock(&main_heap->lock);
    pid_t child = raw_fork();
    if (child == 0) {
        alarm(HANG_SECONDS);
        for (unsigned i = 0; i < COUNT; i++)
            front_free_sized(blocks[i], SIZE, "free_sized");
        CHECK_EQ(sys_process_mark(), SYS_MARK_STRANDED);
        _exit(CHECK_PASS);
    }
    hk_unlock(&main_heap->lock);
    wait_for(child);
    for (unsigned i = 0; i < COUNT; i++)
        front_free_sized(blocks[i], SIZE, "free_sized");
}

/* The lock is that of a frame which the handler that forks has interrupted, and which goes on in the child. */
static void from_a_handler(hk_lock_t *lock) {
    hk_lock(lock);
    fork_prepare();
    pid_t child = raw_fork();
    if (child == 0) {
        fork_in_child();
        is_stranded(lock);
        hk_unlock(lock);
        is_back();
        _exit(CHECK_PASS);
    }
    fork_in_parent();
    hk_unlock(lock);
    wait_for(child);
}

/* The handler has interrupted the start of a heap, which is nobody's yet: the frame goes on in the child too. */
static void from_a_handler_in_a_start(void) {
    hk_front = &hk_no_heap;
    heap_t *begun = life_begin();
    fork_prepare();
    pid_t child = raw_fork();
    if (child == 0) {
        fork_in_child();
        CHECK_EQ(atomic_load(&begun->life), HEAP_LIVE);
        _exit(CHECK_PASS);
    }
    fork_in_parent();
    life_end(begun);
    hk_front = &main_heap->front;
    wait_for(child);
}

static void *thread_of_child(void *unused) {
    void *block = heap_malloc_slow(3000);
    CHECK(block != NULL);
    release(block);
    return unused;
}

static void no_lock_held(void) {
    pid_t child = raw_fork();
    if (child == 0) {
        alarm(HANG_SECONDS);
        CHECK(heap_current() == main_heap);
        CHECK_EQ(sys_process_mark(), SYS_MARK_KNOWN);
        all_is_well();
        (void)thread_of_child(NULL);
        _exit(CHECK_PASS);
    }
    wait_for(child);
}

/* A heap that another thread was retiring waits for adoption; one of a thread is left alone. */
/* Another thread of the parent is in a passage; then the frame that the forking handler has interrupted is, and ends it
 * in the child too. No count is left, and none below 0. */
static void passages_of_the_parent(void) {
    CHECK(sys_passage_begin());
    pid_t child = raw_fork();
    if (child == 0) {
        CHECK(heap_current() == main_heap);
        CHECK_EQ(atomic_load(&hk_passages), 0);
        _exit(CHECK_PASS);
    }
    wait_for(child);
    fork_prepare();
    child = raw_fork();
    if (child == 0) {
        fork_in_child();
        sys_passage_end();
        CHECK_EQ(atomic_load(&hk_passages), 0);
        _exit(CHECK_PASS);
    }
    fork_in_parent();
    sys_passage_end();
    CHECK_EQ(atomic_load(&hk_passages), 0);
    wait_for(child);
}

/* Another thread of the parent puts the handler of guarded blocks in front. In the child nobody does. */
static void handler_of_guarded_blocks(void) {
    atomic_store(&hk_guard_installs, true);
    pid_t child = raw_fork();
    if (child == 0) {
        CHECK(heap_current() == main_heap && !atomic_load(&hk_guard_installs));
        _exit(CHECK_PASS);
    }
    wait_for(child);
    fork_prepare();
    child = raw_fork();
    if (child == 0) {
        fork_in_child();
        CHECK(!atomic_load(&hk_guard_installs));
        _exit(CHECK_PASS);
    }
    fork_in_parent();
    CHECK(atomic_load(&hk_guard_installs));
    atomic_store(&hk_guard_installs, false);
    wait_for(child);
}

static void half_retired(void) {
    uint32_t life = atomic_load(&main_heap->life);
    CHECK_EQ(life, HEAP_LIVE);
    pid_t child = raw_fork();
    if (child == 0) {
        heap_t *other = heap_by_id(HK_OWNER_FIRST + 1);
        atomic_store(&other->life, HEAP_RETIRING);
        CHECK(heap_current() == main_heap);
        CHECK_EQ(atomic_load(&other->life), HEAP_ORPHAN);
        CHECK_EQ(atomic_load(&main_heap->life), HEAP_LIVE);
        heap_adopt_orphan();
        CHECK_EQ(atomic_load(&other->life), HEAP_UNUSED);
        all_is_well();
        _exit(CHECK_PASS);
    }
    wait_for(child);
}

/* The lock of our threads' start and stop is held by another thread of the parent. */
static void lock_of_our_threads(void) {
    hk_threads_pause();
    pid_t child = raw_fork();
    if (child == 0) {
        CHECK(heap_current() == main_heap);
        CHECK_EQ(helper_threads(), 0);
        hk_threads_pause();
        hk_threads_resume();
        _exit(CHECK_PASS);
    }
    hk_threads_resume();
    wait_for(child);
}

static void forks_again(hk_lock_t *lock) {
    hk_lock(lock);
    pid_t child = raw_fork();
    if (child == 0) {
        is_stranded(lock);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            is_stranded(lock);
            _exit(CHECK_PASS);
        }
        wait_for(grandchild);
        grandchild = raw_fork();
        if (grandchild == 0) {
            is_stranded(lock);
            _exit(CHECK_PASS);
        }
        wait_for(grandchild);
        _exit(CHECK_PASS);
    }
    hk_unlock(lock);
    wait_for(child);
}

int main(void) {
    if (HK_TSAN)
        return check_skip("ThreadSanitizer does not live on in children that libc does not know of");
    main_heap = start_heap();
    small_block = front_malloc(1000);
    large_block = front_malloc(LARGE);
    huge_block = front_malloc((size_t)2 << 30);
    CHECK(small_block != NULL && large_block != NULL && huge_block != NULL);
    *(char *)small_block = 's';
    *(char *)large_block = 'l';
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, thread_of_child, NULL) == 0 && pthread_join(thread, NULL) == 0);
    sys_process_mark_wipe();
    CHECK_EQ(sys_process_mark(), SYS_MARK_KNOWN);
    frees_with_sizes_first();
    no_lock_held();
    passages_of_the_parent();
    handler_of_guarded_blocks();
    half_retired();
    hk_lock_t *locks[] = {&hk_superslab_lock, &main_heap->lock, &heap_shared()->lock, &hk_meta_lock,
                          &hk_heap_list_lock, &hk_region_lock,  &hk_huge_lock,        &hk_record_lock};
    for (unsigned i = 0; i < sizeof locks / sizeof locks[0]; i++) {
        without_handlers(locks[i]);
        from_a_handler(locks[i]);
    }
    from_a_handler_in_a_start();
    lock_of_our_threads();
    forks_again(&hk_superslab_lock);
    is_back();
    return CHECK_PASS;
}
