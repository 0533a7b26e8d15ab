/* SPDX-License-Identifier: MIT
 *
 * The capacity of a magazine: small at first, twice as large while a class refills or flushes often, within the class's
 * limit and the heap's budget; gone when nothing is taken for a while; left alone with HAKMEM_ADAPT=off.
 */
#include "core/counters.h"
#include "heap_places.h"

enum { CLS = 3, SIZE = 64, BLOCKS = 20000 };

static void *blocks[BLOCKS];
static size_t most_owned;

static void swing(heap_t *h, unsigned cls, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = magazine_alloc(h, cls);
        CHECK(blocks[i] != NULL);
        most_owned = hk_max(most_owned, (size_t)atomic_load(&h->slot_count) << HK_SLOT_SHIFT);
    }
    for (unsigned i = 0; i < count; i++)
        release(blocks[i]);
}

static size_t accounted(const heap_t *h) {
    size_t bytes = 0;
    for (unsigned cls = 0; cls < HK_MAGAZINE_COUNT; cls++)
        bytes += (size_t)bin_capacity(h, cls) * hk_class_info[cls].block_size;
    return bytes;
}

static void grows_and_shrinks(void) {
    heap_t *h = start_heap();
    CHECK_EQ(bin_capacity(h, CLS), 0);
    blocks[0] = magazine_alloc(h, CLS);
    CHECK_EQ(bin_capacity(h, CLS), hk_class_info[CLS].magazine_min);
    release(blocks[0]);
    unsigned last = bin_capacity(h, CLS);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = magazine_alloc(h, CLS);
        unsigned now = bin_capacity(h, CLS);
        CHECK(now == last || now == 2 * last || now == hk_class_info[CLS].magazine_max);
        last = now;
    }
    CHECK_EQ(last, hk_class_info[CLS].magazine_max);
    CHECK(atomic_load(&hk_counters.magazine_grows) >= 6);
    CHECK_EQ(h->magazine_bytes, accounted(h));
    for (unsigned i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    CHECK_EQ(bin_capacity(h, CLS), last);
    /* A class that is used keeps what it has, one that is not loses all of it after some ticks. */
    for (unsigned tick = 0; tick < 40; tick++) {
        release(magazine_alloc(h, CLS));
        magazine_tick(h);
    }
    CHECK_EQ(bin_capacity(h, CLS), last);
    for (unsigned tick = 0; tick < 200; tick++) {
        unsigned before = bin_capacity(h, CLS);
        magazine_tick(h);
        unsigned now = bin_capacity(h, CLS);
        CHECK(now == before || (now == 0 && tick > 2 && tick < 8));
        CHECK(bin_count(h, CLS) <= now);
        CHECK_EQ(live_blocks(CLS), 0);
    }
    CHECK_EQ(bin_capacity(h, CLS), 0);
    CHECK_EQ(atomic_load(&hk_counters.magazine_shrinks), 1);
    CHECK_EQ(h->magazine_bytes, accounted(h));
    all_is_well();
}

/* What growth adds stays within a quarter of what the heap owns, or 1 MiB. */
static void within_budget(void) {
    heap_t *h = start_heap();
    size_t first = 0;
    h->front.countdown = INT64_MAX; /* no tick in between */
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        first += (size_t)hk_class_info[cls].magazine_min * hk_class_info[cls].block_size;
    for (unsigned round = 0; round < 3; round++)
        for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
            swing(h, cls, cls < HK_TINY_CLASSES ? 500 : 40);
    CHECK(h->magazine_bytes <= first + hk_max(HK_MIB, most_owned / 4));
    CHECK(h->magazine_bytes >= first);
    CHECK_EQ(h->magazine_bytes, accounted(h));
    all_is_well();
}

static void left_alone(void) {
    CHECK(setenv("HAKMEM_ADAPT", "off", 1) == 0);
    heap_t *h = start_heap();
    swing(h, CLS, BLOCKS);
    CHECK_EQ(bin_capacity(h, CLS), hk_class_info[CLS].magazine_min);
    for (unsigned tick = 0; tick < 100; tick++)
        magazine_tick(h);
    CHECK_EQ(bin_capacity(h, CLS), hk_class_info[CLS].magazine_min);
    all_is_well();
}

int main(void) {
    in_child(grows_and_shrinks);
    in_child(within_budget);
    in_child(left_alone);
    return CHECK_PASS;
}
