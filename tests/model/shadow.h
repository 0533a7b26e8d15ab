/* SPDX-License-Identifier: MIT
 *
 * shadow.h: the model's memory of which addresses are live. One bit per 8 bytes of address space.
 *
 * A block is marked after the allocator returned it and cleared before it is given back, so a bit that is already set
 * when a block is marked means that two live blocks overlap: the error is found at the call that made it, across all
 * threads, without a lock. The map has two levels: a table of 1 GiB regions, each with 16 MiB of bits mapped on demand.
 */
#ifndef HAKMEM_TEST_SHADOW_H
#define HAKMEM_TEST_SHADOW_H

#include "testing.h"

#include <stdatomic.h>

enum { SHADOW_REGIONS = 1 << 17, SHADOW_WORDS_PER_REGION = 1 << 21 };

typedef _Atomic uint64_t shadow_word_t;

static _Atomic(shadow_word_t *) *shadow_table;

static inline void shadow_init(void) {
    shadow_table = (_Atomic(shadow_word_t *) *)test_pages(SHADOW_REGIONS * sizeof *shadow_table);
}

static inline shadow_word_t *shadow_word(uintptr_t granule) {
    uintptr_t region = granule >> 27; /* 2^27 granules of 8 bytes: 1 GiB */
    CHECK_SAY(region < SHADOW_REGIONS, "address %#zx", (size_t)granule * 8);
    shadow_word_t *words = atomic_load_explicit(&shadow_table[region], memory_order_acquire);
    if (words == NULL) {
        size_t size = SHADOW_WORDS_PER_REGION * sizeof(uint64_t);
        shadow_word_t *fresh = (shadow_word_t *)test_pages(size);
        if (atomic_compare_exchange_strong(&shadow_table[region], &words, fresh))
            words = fresh;
        else
            munmap((void *)fresh, size);
    }
    return &words[(granule >> 6) & (SHADOW_WORDS_PER_REGION - 1)];
}

/* Sets (or clears) the bits of [p, p + size). True when every one of them was clear (or set) before. */
static inline bool shadow_change(const void *p, size_t size, bool live) {
    uintptr_t granule = (uintptr_t)p / 8;
    uintptr_t end = ((uintptr_t)p + size + 7) / 8;
    bool clean = true;
    while (granule < end) {
        unsigned first = (unsigned)(granule & 63);
        uintptr_t count = end - granule < 64 - first ? end - granule : 64 - first;
        uint64_t mask = (count == 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1) << first;
        shadow_word_t *word = shadow_word(granule);
        uint64_t before = live ? atomic_fetch_or_explicit(word, mask, memory_order_relaxed)
                               : atomic_fetch_and_explicit(word, ~mask, memory_order_relaxed);
        clean &= (before & mask) == (live ? 0 : mask);
        granule += count;
    }
    return clean;
}

#endif
