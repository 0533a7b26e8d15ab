/* SPDX-License-Identifier: MIT
 *
 * Another size for a large block: contents stay, in place where it can, by moving pages where it must, and what is left
 * behind reads as zeros for the next owner.
 */
#include "large/large.h"
#include "rooms.h"
#include "superslab_totals.h"
#include "sys/sys.h"

#include <sys/resource.h>

static large_counts_t counts;

static char *take(size_t size) {
    bool zeroed;
    char *block = large_alloc(&counts, size, 1, &zeroed);
    CHECK(block != NULL);
    return block;
}

static void mark(char *block, size_t from) {
    for (size_t at = from; at < large_size(block); at += HK_SLOT_SIZE)
        *(uint64_t *)(block + at) = at + 1;
}

static void is_marked(char *block, size_t size) {
    for (size_t at = 0; at < size; at += HK_SLOT_SIZE)
        CHECK_EQ(*(uint64_t *)(block + at), at + 1);
}

static void release(char *block) {
    CHECK(large_free(&counts, block, true));
    CHECK_EQ(superslab_check(), 0);
}

static void in_place(void) {
    char *block = take(HK_MIB);
    mark(block, 0);
    CHECK(large_resize(&counts, block, HK_MIB, false) == block);
    CHECK(large_resize(&counts, block, HK_MIB - 100, false) == block);
    CHECK_EQ(large_size(block), HK_MIB);
    CHECK(large_resize(&counts, block, 3 * HK_MIB, false) == block);
    CHECK_EQ(large_size(block), 3 * HK_MIB);
    CHECK_EQ(counts.live_bytes, (long long)(3 * HK_MIB));
    is_marked(block, HK_MIB);
    mark(block, HK_MIB);
    CHECK_EQ(map_lookup(block + 3 * HK_MIB - 1), HK_MAP_RUN_BODY);
    CHECK(large_resize(&counts, block, 300 * HK_KIB, false) == block);
    CHECK_EQ(large_size(block), 5 * HK_SLOT_SIZE);
    CHECK_EQ(map_lookup(block + 5 * HK_SLOT_SIZE), 0);
    is_marked(block, 5 * HK_SLOT_SIZE);
    CHECK_EQ(counts.live_bytes, (long long)(5 * HK_SLOT_SIZE));
    release(block);
    CHECK_EQ(counts.live_bytes, 0);
}

/* Something stands right behind the block. */
static char *fence_behind(const char *block) {
    bool zeroed;
    slot_t end = (slot_t)map_slot(block + large_size(block));
    return slots_alloc_at(end, 1, &zeroed) ? map_slot_address(end) : NULL;
}

static void by_moving(void) {
    enum { STEPS = 5 };
    char *fences[STEPS] = {NULL};
    char *block = take(2 * HK_MIB);
    mark(block, 0);
    for (unsigned i = 0; i < STEPS; i++) {
        size_t size = large_size(block);
        fences[i] = fence_behind(block);
        char *moved = large_resize(&counts, block, size + 5 * HK_MIB, false);
        if (moved == NULL) {
            /* A kernel that cannot move pages: the caller copies, and the block is as it was. */
            is_marked(block, size);
            CHECK_EQ(large_size(block), size);
            break;
        }
        CHECK(moved != block);
        CHECK(large_is_live(moved) && large_size(moved) >= size + 5 * HK_MIB);
        CHECK_EQ(map_lookup(block), 0);
        is_marked(moved, size);
        mark(moved, size);
        /* The old place is as good as new for whoever comes next. */
        slots_t again = slots_alloc(size >> HK_SLOT_SHIFT, 1, SLOTS_SPARSE);
        CHECK(again.first != 0);
        CHECK(!again.zeroed || all_zeros(map_slot_address(again.first), size));
        memset(map_slot_address(again.first), 1, size);
        slots_free(again.first, size >> HK_SLOT_SHIFT, true);
        block = moved;
    }
    is_marked(block, large_size(block));
    CHECK_EQ(counts.live_bytes, (long long)large_size(block));
    size_t size = large_size(block);
    CHECK(large_resize(&counts, block, size - HK_MIB, false) == block);
    is_marked(block, size - HK_MIB);
    release(block);
    for (unsigned i = 0; i < STEPS; i++)
        if (fences[i] != NULL)
            slots_free((slot_t)map_slot(fences[i]), 1, false);
    /* The place of a moved block is mapped and zeroed or known to be dirty. */
    slots_t got = slots_alloc(size >> HK_SLOT_SHIFT, 1, SLOTS_SPARSE);
    CHECK(got.first != 0);
    CHECK(!got.zeroed || all_zeros(map_slot_address(got.first), size));
    memset(map_slot_address(got.first), 2, size);
    slots_free(got.first, size >> HK_SLOT_SHIFT, true);
}

static void refused(void) {
    char *block = take(512 * HK_KIB);
    char *fence = fence_behind(block);
    CHECK(fence != NULL);
    mark(block, 0);
    CHECK(large_resize(&counts, block, HK_MIB, false) == NULL); /* small enough to copy */
    CHECK(large_resize(&counts, block, HK_LARGE_MAX + 1, false) == NULL);
    CHECK_EQ(large_size(block), 512 * HK_KIB);
    is_marked(block, 512 * HK_KIB);
    slots_free((slot_t)map_slot(fence), 1, false);
    release(block);
}

static void fill(char *block) { memset(block, 1, large_size(block)); }

static size_t slot_of(const char *block) { return map_slot(block); }

/* What lies free and resident takes a run that grows, with room to grow on; what it leaves stays resident. */
static void to_what_is_resident(void) {
    char *block = take(HK_MIB), *fence = fence_behind(block), *was = take(8 * HK_MIB);
    CHECK(fence != NULL);
    fill(was);
    fill(block);
    mark(block, 0);
    release(was);
    char *copy = large_resize(&counts, block, 2 * HK_MIB, true);
    CHECK(copy >= was && copy < was + 8 * HK_MIB);
    is_marked(copy, HK_MIB);
    mark(copy, HK_MIB);
    CHECK_EQ(map_lookup(block), 0);
    CHECK(slots_are_dirty((slot_t)slot_of(block), HK_MIB >> HK_SLOT_SHIFT));
    CHECK(large_resize(&counts, copy, 4 * HK_MIB, true) == copy);
    is_marked(copy, 2 * HK_MIB);
    CHECK_EQ(counts.live_bytes, (long long)(4 * HK_MIB));
    CHECK_EQ(counts.allocs, counts.frees + 1);
    release(copy);
    slots_free((slot_t)slot_of(fence), 1, false);
}

/* A copy of what was never touched would be resident. */
static void untouched(void) {
    char *block = take(2 * HK_MIB), *fence = fence_behind(block), *was = take(8 * HK_MIB);
    CHECK(fence != NULL);
    fill(was);
    mark(block, 0);
    release(was);
    char *now = large_resize(&counts, block, 3 * HK_MIB, true);
    if (now == NULL)
        return; /* a kernel that cannot move pages */
    CHECK(now < was || now >= was + 8 * HK_MIB);
    is_marked(now, 2 * HK_MIB);
    release(now);
}

/* One of 4 MiB that is filled as it grows gets huge pages, and grows on in place. */
static void to_huge_pages(void) {
    char *block = take(4 * HK_MIB);
    fill(block);
    mark(block, 0);
    char *huge = large_resize(&counts, block, 5 * HK_MIB, true);
    CHECK(huge != block && (uintptr_t)huge % HK_SUPERSLAB_SIZE == 0);
    CHECK(superslab_view(slot_of(huge) / HK_SLOTS_PER_SUPERSLAB).huge);
    is_marked(huge, 4 * HK_MIB);
    mark(huge, 4 * HK_MIB);
    CHECK(large_resize(&counts, huge, 20 * HK_MIB, true) == huge);
    CHECK(superslab_view(slot_of(huge + 19 * HK_MIB) / HK_SLOTS_PER_SUPERSLAB).huge);
    is_marked(huge, 5 * HK_MIB);
    release(huge);
}

/* Pages that moved to a run go when it is freed, so the next ones are copied, and theirs stay. */
static void copied_after_a_loss(void) {
    for (unsigned i = 0; i < 2; i++) {
        char *block = take(2 * HK_MIB), *fence = fence_behind(block);
        CHECK(fence != NULL);
        fill(block);
        mark(block, 0);
        char *now = large_resize(&counts, block, 3 * HK_MIB, true);
        CHECK(now != block);
        if (now == NULL)
            return; /* a kernel that cannot move pages */
        is_marked(now, 2 * HK_MIB);
        CHECK_EQ(large_is_plain(now), i != 0);
        release(now);
        slots_free((slot_t)slot_of(fence), 1, false);
        (void)superslab_purge(SIZE_MAX);
    }
}

static void limit_data(rlim_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
}

/* Where the kernel unmaps a moved run's pages and maps no others, the slots serve nobody: here that is done to it. */
static void unmapped(void) {
    char *block = take(2 * HK_MIB), *fence = fence_behind(block);
    CHECK(fence != NULL);
    char *moved = large_resize(&counts, block, 20 * HK_MIB, false);
    if (moved == NULL || moved == block)
        return; /* a kernel that cannot move pages */
    size_t size = large_size(moved);
    limit_data(sys_page_size()); /* less than there is; 0 would be none to the kernel */
    CHECK(sys_unmap(moved + 10 * HK_MIB, size - 10 * HK_MIB));
    CHECK(large_resize(&counts, moved, 10 * HK_MIB, false) == moved);
    CHECK(sys_unmap(moved, 10 * HK_MIB));
    CHECK(large_free(&counts, moved, true));
    limit_data(RLIM_INFINITY);
    CHECK_EQ(counts.live_bytes, 0);
    CHECK_EQ(superslab_check(), 0);
    for (unsigned i = 0; i < 20; i++) {
        char *next = take(2 * HK_MIB);
        CHECK(next + 2 * HK_MIB <= moved || next >= moved + size);
        mark(next, 0);
    }
}

int main(void) {
    start_slab();
    in_place();
    in_child(to_what_is_resident);
    in_child(untouched);
    in_child(to_huge_pages);
    in_child(copied_after_a_loss);
    by_moving();
    refused();
    in_child(unmapped);
    CHECK_EQ(counts.live_bytes, 0);
    superslab_totals_t totals = superslab_totals();
    CHECK_EQ(totals.superslab_count * HK_SLOTS_PER_SUPERSLAB, totals.free_slots);
    return CHECK_PASS;
}
