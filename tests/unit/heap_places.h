/* SPDX-License-Identifier: MIT
 *
 * heap_places.h: a heap to test, and where the blocks of a class are (HEAP-1): with the program, in magazines, in
 * remote tables, in messages, in free bits. Count only while no other thread is in the allocator.
 */
#ifndef HK_TEST_HEAP_PLACES_H
#define HK_TEST_HEAP_PLACES_H

#include "heap/budget.h"
#include "heap/flush.h"
#include "heap/lists.h"
#include "heap/magazine.h"
#include "heap/quarantine.h"
#include "heap/remote.h"
#include "heap/search.h"
#include "heap/supply.h"
#include "heap/wake.h"
#include "helper/helper.h"
#include "limit/limit.h"
#include "report/check.h"
#include "report/describe.h"
#include "report/stats.h"
#include "rooms.h"
#include "slow/blocks.h"
#include "slow/free.h"
#include "slow/free_sized.h"
#include "slow/malloc.h"
#include "slow/realloc.h"
#include "slow/reclaim.h"
#include "slow/tick.h"
#include "start/load.h"
#include "start/start.h"
#include "upkeep/life.h"
#include "upkeep/round.h"

/* The calling thread's heap. The first call starts the allocator, without the helper thread and without purging. */
static inline heap_t *start_heap(void) {
    CHECK(setenv("HAKMEM_BACKGROUND", "off", 1) == 0 && setenv("HAKMEM_PURGE_DELAY", "-1", 1) == 0);
    heap_t *h = heap_current();
    CHECK(h != NULL);
    return h;
}

/* As free() of a block that the heap's magazine takes. */
static inline void push(heap_t *h, unsigned cls, void *block) {
    CHECK(map_clear_live(map_granule(block)));
    magazine_free(h, cls, block);
}

/* As free(), of any block. */
static inline void release(void *block) { CHECK(heap_realloc(block, 0, NULL) == NULL); }

static inline unsigned bin_count(const heap_t *h, unsigned cls) { return (unsigned)heap_magazine_count(h, cls); }

static inline unsigned bin_capacity(const heap_t *h, unsigned cls) { return heap_magazine_capacity(h, cls); }

typedef struct places {
    size_t total, in_free_bits, in_remote_tables, in_messages, in_magazines;
} places_t;

static inline size_t in_word(const remote_entry_t *word, unsigned cls) {
    return word->bits != 0 && heap_remote_slab(word)->cls == cls ? hk_popcount64(word->bits) : 0;
}

static inline size_t in_message(const message_t *message, unsigned cls) {
    size_t sum = 0;
    for (unsigned i = 0; message != NULL && i < message->count; i++)
        sum += in_word(&message->words[i], cls);
    return sum;
}

static inline size_t in_messages(const heap_t *h, unsigned cls) {
    size_t sum = 0;
    for (unsigned i = 0; i < HEAP_OUTBOX; i++)
        sum += in_message(h->outbox[i], cls);
    for (const message_t *message = atomic_load(&h->inbox); message != NULL; message = message->next)
        sum += in_message(message, cls);
    return sum;
}

static inline void add_list(places_t *sum, slot_t at, unsigned cls) {
    for (; at != 0; at = slab_at(at)->next) {
        const slab_t *slab = slab_at(at);
        if (slab->cls != cls)
            continue;
        sum->total += slab->block_count;
        sum->in_free_bits += slab->free_count;
    }
}

static inline places_t places_of(unsigned cls) {
    places_t sum = {0};
    for (uint32_t id = HK_OWNER_SHARED; id < heap_limit(); id++) {
        const heap_t *h = heap_by_id(id);
        for (unsigned bin = 0; bin < HEAP_BINS; bin++)
            add_list(&sum, h->class_stats[cls].partial[bin], cls);
        add_list(&sum, h->full, cls);
        sum.in_magazines += bin_count(h, cls);
        for (unsigned i = 0; i < HEAP_REMOTE_ENTRIES; i++)
            sum.in_remote_tables += in_word(&h->remote_table[i], cls);
        sum.in_messages += in_messages(h, cls);
    }
    return sum;
}

/* Blocks of the class that the program has. */
static inline size_t live_blocks(unsigned cls) {
    places_t p = places_of(cls);
    return p.total - p.in_free_bits - p.in_remote_tables - p.in_messages - p.in_magazines;
}

static inline void all_is_well(void) { CHECK_EQ(hk_check_all(), 0); }

#endif
