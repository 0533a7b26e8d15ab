/* SPDX-License-Identifier: MIT
 *
 * HAKMEM_SAFE=2 and 3: the slot behind some slabs cannot be touched, as long as the slab is open, whoever has it.
 */
#include "heap/explicit.h"
#include "heap_places.h"
#include "superslab/superslab.h"
#include "sys/confined.h"
#include "sys/sys.h"

#include <pthread.h>
#include <sys/wait.h>

static heap_t *h;

static void start_safe(const char *level) {
    CHECK(setenv("HAKMEM_SAFE", level, 1) == 0 && setenv("HAKMEM_ON_ERROR", "report", 1) == 0);
    h = start_heap();
    CHECK(hardened_is_on());
}

static bool can_touch(const char *address) { return sys_is_readable((uintptr_t)address); }

static void can_write(char *from, size_t size) { memset(from, 7, size); }

enum { SMALLS = 20000, OF_BLOCK = 1000 };
static char *small[SMALLS];

static slab_t *slab_of_block(const void *block) { return slab_of(block, map_lookup(block) & HK_MAP_CLASS_MAX); }

/* What lies behind a fenced slab cannot be touched, and counts as its end. Returns how many of all are fenced. */
static unsigned fenced_slabs(unsigned *all) {
    const slab_t *last = NULL;
    unsigned fenced = 0;
    *all = 0;
    for (unsigned i = 0; i < SMALLS; i++) {
        const slab_t *slab = slab_of_block(small[i]);
        if (slab == last)
            continue;
        last = slab;
        ++*all;
        if (!slab->fenced)
            continue;
        const char *behind = slab_base(slab) + HK_SLOT_SIZE;
        hk_description_t d;
        fenced++;
        CHECK(!can_touch(behind) && !can_touch(behind + HK_SLOT_SIZE - 1) && can_touch(behind - 1));
        CHECK(hk_describe(behind + 5, &d) && d.where == HK_WHERE_SLAB_TAIL && !hk_owns(behind + 5));
        CHECK((const char *)d.block < behind && (const char *)d.block + d.offset == behind + 5);
        CHECK(map_lookup(d.block) == map_lookup(small[i]) && d.offset - d.block_size < HK_SLOT_SIZE);
    }
    return fenced;
}

static void allocate_small(void) {
    for (unsigned i = 0; i < SMALLS; i++) {
        CHECK((small[i] = heap_malloc_slow(OF_BLOCK)) != NULL);
        can_write(small[i], OF_BLOCK);
    }
}

static void release_small(void) {
    for (unsigned i = 0; i < SMALLS; i++)
        release(small[i]);
    quarantine_drain(h);
    heap_lock(h);
    heap_close_spares_locked(h);
    heap_unlock(h);
}

/* Some slabs have a fence, which goes with the slab: no slot is lost, and the next blocks lie there. */
static void slab_fences(const char *level) {
    start_safe(level);
    release(heap_malloc_slow(OF_BLOCK));
    quarantine_drain(h);
    for (unsigned round = 0; round < 3; round++) {
        size_t before = superslab_used_slots();
        allocate_small();
        unsigned all, fenced = fenced_slabs(&all);
        CHECK_SAY(fenced > all / 40 && fenced < all / 4, "%u of %u slabs are fenced", fenced, all);
        release_small();
        CHECK(superslab_used_slots() <= before);
        all_is_well();
        (void)superslab_purge(SIZE_MAX);
        char *over = heap_malloc_slow(40 * HK_MIB);
        CHECK(over != NULL);
        can_write(over, 40 * HK_MIB);
        release(over);
        quarantine_drain(h);
        (void)hk_trim_all();
    }
    CHECK_EQ(hk_misuse_count(), 0);
}

static void slab_fences_2(void) { slab_fences("2"); }
static void slab_fences_3(void) { slab_fences("3"); }

/* What was freed and is not looked at yet stays as it is: only where fences were before there are some again. */
static void dirty_is_not_fenced(void) {
    start_safe("2");
    allocate_small();
    release_small();
    allocate_small();
    unsigned all, fenced = fenced_slabs(&all);
    CHECK_SAY(fenced < all / 16, "%u of %u slabs are fenced", fenced, all);
}

/* The child has its parent's fences, and lets go of them. */
static void slab_fences_in_child(void) {
    start_safe("2");
    allocate_small();
    unsigned all, fenced = fenced_slabs(&all);
    CHECK(fenced > 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(fenced_slabs(&all), fenced);
        release_small();
        allocate_small();
        release_small();
        all_is_well();
        _exit(CHECK_PASS);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK_EQ(fenced_slabs(&all), fenced);
    release_small();
    all_is_well();
}

/* What was fenced before is opened without a call that a filter may not know; from then on nothing is fenced. */
static void slab_fences_confined(void) {
    start_safe("2");
    allocate_small();
    unsigned all;
    CHECK(fenced_slabs(&all) > 0);
    sys_confine();
    release_small();
    size_t before = superslab_used_slots();
    allocate_small();
    CHECK_EQ(fenced_slabs(&all), 0);
    release_small();
    CHECK_EQ(superslab_used_slots(), before);
    all_is_well();
}

/* Of another heap, which ends with them, and of a thread, whose slabs go to others. */
static void *allocate_elsewhere(void *unused) {
    allocate_small();
    return unused;
}

static void slab_fences_change_hands(void) {
    start_safe("2");
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, allocate_elsewhere, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    unsigned all, fenced = fenced_slabs(&all);
    CHECK(fenced > 0);
    size_t before = superslab_used_slots();
    release_small();
    (void)hk_trim_all();
    CHECK(superslab_used_slots() + all < before);
    all_is_well();
}

static void slab_fences_end_with_heap(void) {
    start_safe("2");
    int error;
    size_t before = superslab_used_slots();
    heap_t *own = explicit_make(NULL, 0, &error);
    CHECK(own != NULL);
    for (unsigned i = 0; i < SMALLS; i++) {
        block_past_t past;
        CHECK((small[i] = explicit_take(own, class_of(OF_BLOCK), HK_ALIGNMENT, NULL, &past)) != NULL);
    }
    unsigned all;
    CHECK(fenced_slabs(&all) > 0);
    (void)explicit_close_all(own);
    CHECK_EQ(superslab_used_slots(), before);
    all_is_well();
}

/* Below level 2 there are none. */
static void no_slab_fences(void) {
    h = start_heap();
    allocate_small();
    unsigned all;
    CHECK_EQ(fenced_slabs(&all), 0);
}

int main(void) {
    in_child(slab_fences_2);
    in_child(slab_fences_3);
    in_child(dirty_is_not_fenced);
    in_child(slab_fences_in_child);
    in_child(slab_fences_confined);
    in_child(slab_fences_change_hands);
    in_child(slab_fences_end_with_heap);
    in_child(no_slab_fences);
    return CHECK_PASS;
}
