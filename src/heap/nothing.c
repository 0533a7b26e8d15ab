/* SPDX-License-Identifier: MIT */
#include "heap/nothing.h"

#include "base/bits.h"
#include "core/panic.h"
#include "sys/sys.h"

enum { NOTHING_WORDS = NOTHING_COUNT / 64, NOTHING_BYTES = NOTHING_COUNT * NOTHING_STEP };

static _Atomic(char *) mapping;                      /* NULL until the first block of size 0 */
static _Atomic uint64_t live[NOTHING_WORDS] HK_RARE; /* relaxed: what the program does passes a block on */
static _Atomic uint32_t cursor;                      /* a hint: of which word the next one is */

/* Two threads may come first: one mapping goes again. Acquire and release: none, the mapping has no contents. */
static char *mapped(void) {
    char *mine, *there = atomic_load_explicit(&mapping, memory_order_relaxed);
    if (there != NULL || (mine = sys_map_none(NOTHING_BYTES)) == NULL)
        return there;
    if (atomic_compare_exchange_strong_explicit(&mapping, &there, mine, memory_order_relaxed, memory_order_relaxed))
        return mine;
    (void)sys_unmap(mine, NOTHING_BYTES);
    return there;
}

void *nothing_alloc(size_t align) {
    hk_assert(align <= NOTHING_ALIGN_MAX && (align & (align - 1)) == 0);
    char *base = mapped();
    if (base == NULL)
        return NULL;
    const size_t steps = hk_max(align / NOTHING_STEP, 1);
    uint64_t aligned = 1; /* those of a word that are, if its first is */
    for (size_t step = steps; step < 64; step *= 2)
        aligned |= aligned << step;
    for (unsigned tries = 0; tries < NOTHING_WORDS; tries++) {
        unsigned word = atomic_fetch_add_explicit(&cursor, 1, memory_order_relaxed) % NOTHING_WORDS;
        uint64_t bits = atomic_load_explicit(&live[word], memory_order_relaxed), open;
        while (word * 64 % steps == 0 && (open = ~bits & aligned) != 0) {
            unsigned at = hk_ctz64(open);
            if (atomic_compare_exchange_weak_explicit(&live[word], &bits, bits | UINT64_C(1) << at,
                                                      memory_order_relaxed, memory_order_relaxed))
                return base + (word * 64 + at) * NOTHING_STEP;
        }
    }
    return NULL;
}

/* Its number; NOTHING_COUNT when it is none. */
static size_t number_of(const void *address) {
    const char *base = atomic_load_explicit(&mapping, memory_order_relaxed);
    size_t offset = (uintptr_t)address - (uintptr_t)base;
    return base != NULL && offset < NOTHING_BYTES && offset % NOTHING_STEP == 0 ? offset / NOTHING_STEP : NOTHING_COUNT;
}

bool nothing_holds(const void *address) {
    const char *base = atomic_load_explicit(&mapping, memory_order_relaxed);
    return base != NULL && (uintptr_t)address - (uintptr_t)base < NOTHING_BYTES;
}

bool nothing_is_live(const void *address) {
    size_t at = number_of(address);
    return at < NOTHING_COUNT && (atomic_load_explicit(&live[at / 64], memory_order_relaxed) >> at % 64 & 1) != 0;
}

bool nothing_free(const void *address) {
    size_t at = number_of(address);
    uint64_t bit = UINT64_C(1) << at % 64;
    return at < NOTHING_COUNT && (atomic_fetch_and_explicit(&live[at / 64], ~bit, memory_order_relaxed) & bit) != 0;
}
