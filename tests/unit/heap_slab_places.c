/* SPDX-License-Identifier: MIT
 *
 * HAKMEM_SAFE=2 and 3: the slot behind some slabs cannot be touched, as long as the slab is open, whoever has it; and
 * slabs and superslabs lie at random places.
 */
#include "heap/explicit.h"
#include "heap_places.h"
#include "superslab/superslab.h"
#include "sys/confined.h"
#include "sys/sys.h"

#include <pthread.h>
#include <sys/mman.h>
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

/* Since Linux 6.13; without it no slab has a fence. */
static bool kernel_guards(void) {
    const size_t size = sys_page_size();
    void *page = sys_map(size);
    CHECK(page != NULL);
    const bool does = madvise(page, size, 102 /* MADV_GUARD_INSTALL */) == 0;
    sys_unmap(page, size);
    return does;
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
        const bool some = fenced > all / 32 && fenced < all / 4;
        CHECK_SAY(kernel_guards() ? some : fenced == 0, "%u of %u slabs are fenced", fenced, all);
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

/* What was freed and is not looked at yet stays as it is. */
static void dirty_is_not_fenced(void) {
    static uint32_t dirty[1024];
    start_safe("2");
    allocate_small();
    release_small();
    CHECK(superslab_dirty_bytes() > 0 && map_count() <= 1024 * SLOTS);
    for (size_t i = region_next_used(1); i != 0; i = region_next_used(i + 1))
        dirty[i] = superslab_view(i).dirty_mask;
    allocate_small();
    for (unsigned i = 0; i < SMALLS; i++) {
        slot_t behind = slab_slot(slab_of_block(small[i])) + 1;
        CHECK(!slab_of_block(small[i])->fenced || (dirty[behind / SLOTS] >> (behind % SLOTS) & 1) == 0);
    }
}

/* The child has its parent's fences, and lets go of them. */
static void slab_fences_in_child(void) {
    start_safe("2");
    allocate_small();
    unsigned all, fenced = fenced_slabs(&all);
    CHECK(fenced > 0 || !kernel_guards());
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
    CHECK(fenced_slabs(&all) > 0 || !kernel_guards());
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
    CHECK(fenced > 0 || !kernel_guards());
    size_t before = superslab_used_slots();
    release_small();
    (void)hk_trim_all();
    CHECK(superslab_used_slots() + all + (fenced > 0) <= before);
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
    CHECK(fenced_slabs(&all) > 0 || !kernel_guards());
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

/* --- Places ------------------------------------------------------------------------------------------------------- */

enum { PLACES = 60 };

/* How many of what was taken lie just behind what was taken before. */
static unsigned in_order(const slot_t *taken, size_t count) {
    unsigned behind = 0;
    for (unsigned i = 1; i < PLACES; i++)
        behind += taken[i] == taken[i - 1] + count;
    return behind;
}

static unsigned take_in_order(size_t count, slot_t taken[PLACES]) {
    for (unsigned i = 0; i < PLACES; i++)
        CHECK((taken[i] = slots_alloc(count, count, SLOTS_DENSE).first) != 0);
    return in_order(taken, count);
}

/* Neither superslabs nor slots of one follow on each other; together they are few, and the lowest serve. */
static void places_are_random(void) {
    slot_t taken[PLACES];
    start_safe("2");
    for (size_t count = SLOTS; count > 0; count /= SLOTS) {
        unsigned behind = take_in_order(count, taken);
        CHECK_SAY(behind < PLACES / 4, "%u of %u places of %zu slots are in order", behind, PLACES, count);
        for (unsigned i = 0; i < PLACES; i++)
            slots_free(taken[i], count, true);
        CHECK(region_frontier() < 4 * 64);
    }
    all_is_well();
}

/* What is resident goes before what is not. */
static void dirty_serves_first(void) {
    slot_t taken[PLACES];
    start_safe("2");
    (void)take_in_order(1, taken);
    for (unsigned i = 0; i < PLACES; i++)
        slots_free(taken[i], 1, true);
    for (unsigned i = 0; i < PLACES; i++)
        CHECK(!slots_alloc(1, 1, SLOTS_DENSE).zeroed);
    CHECK_EQ(superslab_dirty_bytes(), 0);
    all_is_well();
}

static void in_order_below_level_2(void) {
    slot_t taken[PLACES];
    h = start_heap();
    for (size_t count = SLOTS; count > 0; count /= SLOTS)
        CHECK(take_in_order(count, taken) >= PLACES - 3);
}

/* Parent and child of a fork do not go on alike. */
static void child_draws_anew(void) {
    start_safe("2");
    slot_t own[PLACES], *childs = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(childs != MAP_FAILED);
    (void)take_in_order(1, own);
    pid_t child = fork();
    CHECK(child >= 0);
    (void)take_in_order(1, child == 0 ? childs : own);
    if (child == 0)
        _exit(CHECK_PASS);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    unsigned alike = 0;
    for (unsigned i = 0; i < PLACES; i++)
        alike += own[i] == childs[i];
    CHECK_SAY(alike < PLACES / 2, "%u of %u are alike", alike, PLACES);
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
    in_child(places_are_random);
    in_child(dirty_serves_first);
    in_child(in_order_below_level_2);
    in_child(child_draws_anew);
    return CHECK_PASS;
}
