/* SPDX-License-Identifier: MIT
 *
 * Magazines: refill and flush neither lose nor double a block (HEAP-1), fresh blocks come in address order, and a
 * dropped magazine leaves nothing behind.
 */
#include "heap_places.h"

enum { HELD = 3000, TURNS = 60000, CLASSES = 5 };

static heap_t *h;

static void address_order(void) {
    enum { CLS = 9, SIZE = 160, COUNT = 400 };
    char *blocks[COUNT];
    unsigned jumps = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = magazine_alloc(h, CLS);
        jumps += i > 0 && blocks[i] != blocks[i - 1] + SIZE;
    }
    /* A slab begins somewhere and goes round: at the end of its first word, and at its own end. */
    CHECK(jumps <= 2 * 4);
    CHECK_EQ(live_blocks(CLS), COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        release(blocks[i]);
    CHECK_EQ(live_blocks(CLS), 0);
}

static void at_random(void) {
    static const unsigned classes[CLASSES] = {0, 3, 63, 80, 127};
    static struct {
        uint64_t *block;
        unsigned which;
    } held[HELD];
    size_t live[CLASSES] = {0};
    uint64_t random = 11;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned k = (unsigned)(next_random(&random) % HELD);
        if (held[k].block == NULL) {
            unsigned which = (unsigned)(next_random(&random) % 64);
            which = which < CLASSES ? which : which % 3;
            held[k].which = which;
            held[k].block = magazine_alloc(h, classes[which]);
            CHECK(held[k].block != NULL);
            CHECK_EQ(map_lookup(held[k].block), h->front.tag | classes[which]);
            CHECK(map_is_live(map_granule(held[k].block)));
            held[k].block[0] = k;
            live[which]++;
        } else {
            CHECK(held[k].block[0] == k);
            release(held[k].block);
            held[k].block = NULL;
            live[held[k].which]--;
        }
        if (turn % 2000 != 0)
            continue;
        for (unsigned c = 0; c < CLASSES; c++)
            CHECK_EQ(live_blocks(classes[c]), live[c]);
        all_is_well();
    }
    for (unsigned k = 0; k < HELD; k++)
        if (held[k].block != NULL)
            release(held[k].block);
}

static uint64_t refills(void) {
    uint64_t sum = 0;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        sum += h->class_stats[cls].refills;
    return sum;
}

/* A megabyte in blocks of all sizes below 1 KiB; returns how many refills that took. */
static uint64_t frame(void) {
    enum { COUNT = 2048 };
    static void *blocks[COUNT];
    uint64_t before = refills();
    for (unsigned i = 0; i < COUNT; i++)
        blocks[i] = heap_malloc(1 + i * 37 % 1024, NULL);
    for (unsigned i = COUNT; i-- > 0;)
        release(blocks[i]);
    return refills() - before;
}

/* Who frees on and on may go to sleep: all magazines are emptied now and then. Who frees and allocates by turns need
 * not fill them each time. */
static void frames(void) {
    uint64_t first = 0, later = 0;
    for (unsigned i = 0; i < 20; i++)
        *(i < 10 ? &first : &later) += frame();
    CHECK(h->sweep_shift >= 2);
    CHECK(first >= 100 && later * 2 <= first);
    /* 32 MiB at once leave little in the magazines. */
    enum { LONG = 64 << 10 };
    static void *blocks[LONG];
    for (unsigned i = 0; i < LONG; i++)
        blocks[i] = heap_malloc(512, NULL);
    for (unsigned i = 0; i < LONG; i++)
        release(blocks[i]);
    size_t kept = 0;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        kept += bin_count(h, cls) * (size_t)hk_class_info[cls].block_size;
    CHECK(kept <= 32 << 10);
    magazine_retire_all(h);
    CHECK_EQ(h->sweep_shift, 0);
}

static void dropped(void) {
    magazine_drop_all(h);
    for (unsigned cls = 0; cls < HK_MAGAZINE_COUNT; cls++) {
        CHECK_EQ(bin_capacity(h, cls), 0);
        CHECK(h->class_stats[cls].array == NULL && h->front.magazines[cls].top == 0);
    }
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        places_t p = places_of(cls);
        CHECK_EQ(p.in_free_bits, p.total);
    }
    CHECK_EQ(h->magazine_bytes, 0);
    heap_lock(h);
    heap_close_spares_locked(h);
    heap_unlock(h);
    CHECK_EQ(atomic_load(&h->slot_count), 0);
    all_is_well();
    void *block = magazine_alloc(h, 3);
    CHECK(block != NULL);
    release(block);
}

/* One block past the magazine, and back. */
static void past_it(void) {
    block_past_t past;
    magazine_drop_all(h);
    void *block = heap_take_one(h, 40, &past);
    CHECK(block != NULL);
    CHECK_EQ(live_blocks(40), 1);
    CHECK_EQ(bin_count(h, 40), 0);
    magazine_give_one(h, 40, block);
    CHECK_EQ(live_blocks(40), 0);
    all_is_well();
}

int main(void) {
    h = start_heap();
    address_order();
    at_random();
    frames();
    dropped();
    past_it();
    return CHECK_PASS;
}
