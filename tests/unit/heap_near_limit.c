/* SPDX-License-Identifier: MIT
 *
 * Where size classes share slabs, blocks of the next of two classes a doubling serve, as long as that one has few
 * slabs; and a block of which a slab has several is alone in a run, as long as such runs are no more than a slab.
 */
#include "heap_places.h"

enum { SMALL = 400, SHARED = 512, MID = 40000, SHARED_SLABS = 4 };

static heap_t *start_sharing(void) {
    heap_t *h = start_heap();
    release(heap_malloc_slow(8 * SHARED)); /* claims a superslab, which settles how near a limit is */
    atomic_store(&hk_scarce_shared, true);
    return h;
}

static void one_slab_for_several(void) {
    heap_t *h = start_sharing();
    for (size_t size = SHARED / 4 * 3 + 1; size <= SHARED; size += HK_ALIGNMENT) {
        void *block = heap_malloc_slow(size);
        CHECK_EQ(heap_usable_size(block, NULL), SHARED);
        heap_free_sized(block, HK_ALIGNMENT, size, "free_sized");
    }
    CHECK_EQ(h->class_stats[class_of(SHARED)].slab_count, 1);
    CHECK_EQ(heap_usable_size(heap_malloc_slow(SHARED / 2), NULL), SHARED / 2);
    all_is_well();
}

/* A program with many blocks of one size loses a few slabs' worth of what it asks for, and no more. */
static void until_there_are_many(void) {
    heap_t *h = start_sharing();
    unsigned own = 0, blocks = 2 * SHARED_SLABS * HK_SLOT_SIZE / SHARED;
    for (unsigned i = 0; i < blocks; i++)
        own += heap_usable_size(heap_malloc_slow(SMALL), NULL) == SMALL;
    CHECK_EQ(h->class_stats[class_of(SHARED)].slab_count, SHARED_SLABS);
    CHECK(own > blocks / 2 - h->class_stats[class_of(SHARED)].refills &&
          h->class_stats[class_of(SMALL)].slab_count > 0);
    all_is_well();
}

static void alone(void) {
    heap_t *h = start_sharing();
    unsigned cls = class_of(MID), runs = hk_class_info[cls].slab_slots;
    void *blocks[32];
    CHECK(runs > 1 && runs < 32);
    for (unsigned i = 0; i < runs; i++)
        blocks[i] = heap_malloc_slow(MID);
    CHECK_EQ(large_alone_count(&h->large, cls), runs);
    CHECK_EQ(h->class_stats[cls].slab_count, 0);
    release(blocks[0]);
    CHECK_EQ(large_alone_count(&h->large, cls), runs - 1);
    blocks[0] = heap_malloc_slow(MID);
    CHECK_EQ(h->class_stats[cls].slab_count, 0);
    CHECK(map_is_run(map_lookup(blocks[0])) && !map_is_run(map_lookup(heap_malloc_slow(MID))));
    CHECK_EQ(h->class_stats[cls].slab_count, 1);
    for (unsigned i = 0; i < runs; i++)
        release(blocks[i]);
    CHECK_EQ(large_alone_count(&h->large, cls), 0);
    all_is_well();
}

int main(void) {
    in_child(one_slab_for_several);
    in_child(until_there_are_many);
    in_child(alone);
    return CHECK_PASS;
}
