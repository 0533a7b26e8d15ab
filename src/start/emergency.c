/* SPDX-License-Identifier: MIT */
#include "start/emergency.h"

#include "base/bits.h"
#include "sys/sys.h"

#include <stdatomic.h>

enum {
    CHUNK_SHIFT = 16,
    BLOCK_SHIFT_MIN = 5,
    BLOCK_SHIFT_MAX = 15,
    CHUNKS_MIN = 1 << 8, /* 16 MiB of address space are the least that is tried */
};
#define CHUNK_BYTES ((size_t)1 << CHUNK_SHIFT)
#define CHUNKS_MAX  ((size_t)1 << 20) /* 64 GiB */

/* What the table says of a chunk: blocks of 2^n bytes (n up to BLOCK_SHIFT_MAX), or the first of a run of so many
 * chunks, which may be free. 0: nothing, or the inside of a run. */
#define RUN_UNIT UINT32_C(0x100)
#define RUN_FREE UINT32_C(1)

typedef struct block {
    struct block *next;
    uint64_t seal; /* says that the block is free */
} block_t;

hk_lock_t hk_emergency_lock = HK_LOCK_INIT(HK_RANK_TRIED);

/* Guarded by it. */
static block_t *free_blocks[BLOCK_SHIFT_MAX + 1];
static char *fresh_blocks[BLOCK_SHIFT_MAX + 1]; /* those of the chunk that was opened last */

/* Written by emergency_open: before anybody allocates, and constant from then on. */
static uintptr_t base;
static size_t chunk_count;
static uint64_t secret;

static _Atomic size_t chunks_taken; /* from the start of the stretch; also without the lock */

/* One word for each chunk, in the first chunks. Also without the lock: an entry is of who took the chunk, until it is
 * freed. */
static _Atomic uint32_t *entry_of(size_t chunk) { return (_Atomic uint32_t *)base + chunk; }

static uint32_t entry(size_t chunk) { return atomic_load_explicit(entry_of(chunk), memory_order_relaxed); }

static void set_entry(size_t chunk, uint32_t now) { atomic_store_explicit(entry_of(chunk), now, memory_order_relaxed); }

static char *chunk_address(size_t chunk) { return (char *)(base + (chunk << CHUNK_SHIFT)); }

static size_t chunk_of(const void *address) { return ((uintptr_t)address - base) >> CHUNK_SHIFT; }

static size_t run_length(uint32_t of) { return of / RUN_UNIT; }

/* The table's own. */
static size_t table_chunks(size_t count) { return (count * sizeof(uint32_t) + CHUNK_BYTES - 1) >> CHUNK_SHIFT; }

void emergency_open(void) {
    for (size_t count = CHUNKS_MAX; base == 0 && count >= CHUNKS_MIN; count /= 2) {
        size_t size = (count + 1) << CHUNK_SHIFT, table = table_chunks(count);
        char *whole = sys_map_none(size);
        char *start = (char *)hk_align_up((uintptr_t)whole, CHUNK_BYTES);
        if (whole == NULL)
            continue;
        if (sys_map_over(start, table << CHUNK_SHIFT) != 0) {
            sys_unmap(whole, size);
            return;
        }
        sys_random(&secret, sizeof secret);
        chunk_count = count;
        atomic_store_explicit(&chunks_taken, table, memory_order_relaxed);
        base = (uintptr_t)start;
    }
}

/* --- Runs of chunks ----------------------------------------------------------------------------------------------- */

/* Of chunks that nobody has used. 0: there are none. */
static size_t fresh_run(size_t count, size_t align_chunks) {
    size_t taken = atomic_load_explicit(&chunks_taken, memory_order_relaxed), first;
    size_t at_base = base >> CHUNK_SHIFT;
    do {
        first = hk_align_up(at_base + taken, align_chunks) - at_base;
        if (first >= chunk_count || count > chunk_count - first)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&chunks_taken, &taken, first + count, memory_order_relaxed,
                                                    memory_order_relaxed));
    return sys_map_over(chunk_address(first), count << CHUNK_SHIFT) == 0 ? first : 0;
}

/* First fit among the runs that were freed; neighbours become one. 0: there is none. */
static size_t freed_run_locked(size_t count) {
    size_t end = atomic_load_explicit(&chunks_taken, memory_order_relaxed), before = 0;
    for (size_t at = table_chunks(chunk_count), length; at < end; at += length) {
        uint32_t here = entry(at);
        length = here < RUN_UNIT ? 1 : run_length(here);
        if ((here & RUN_FREE) == 0 || here < RUN_UNIT) {
            before = 0;
            continue;
        }
        if (before != 0) {
            set_entry(at, 0);
            here += entry(before) - RUN_FREE;
            set_entry(before, here);
        } else {
            before = at;
        }
        if (run_length(here) < count)
            continue;
        if (run_length(here) > count)
            set_entry(before + count, here - (uint32_t)count * RUN_UNIT);
        return before;
    }
    return 0;
}

static void *alloc_run(size_t size, size_t align, bool locked) {
    size_t count = (size + CHUNK_BYTES - 1) >> CHUNK_SHIFT, first = 0;
    if (locked && align <= CHUNK_BYTES)
        first = freed_run_locked(count);
    if (first == 0)
        first = fresh_run(count, hk_max(align >> CHUNK_SHIFT, 1));
    if (first == 0)
        return NULL;
    set_entry(first, (uint32_t)count * RUN_UNIT);
    return chunk_address(first);
}

/* --- Blocks ------------------------------------------------------------------------------------------------------- */

static uint64_t seal_of(const block_t *block) { return secret ^ (uintptr_t)block; }

static void *alloc_block_locked(unsigned shift) {
    block_t *block = free_blocks[shift];
    if (block != NULL) {
        free_blocks[shift] = block->next;
        block->seal = 0;
        return block;
    }
    char *fresh = fresh_blocks[shift];
    if ((uintptr_t)fresh % CHUNK_BYTES == 0) {
        fresh = alloc_run(CHUNK_BYTES, 1, true);
        if (fresh == NULL)
            return NULL;
        set_entry(chunk_of(fresh), shift);
    }
    fresh_blocks[shift] = fresh + ((size_t)1 << shift);
    return fresh;
}

void *emergency_alloc(size_t size, size_t align) {
    size_t need = hk_max(hk_max(size, align), (size_t)1 << BLOCK_SHIFT_MIN);
    bool locked = hk_try_lock(&hk_emergency_lock);
    void *block = NULL;
    if (base != 0 && need <= chunk_count << CHUNK_SHIFT)
        block = locked && need <= (size_t)1 << BLOCK_SHIFT_MAX ? alloc_block_locked(hk_log2_ceil(need))
                                                               : alloc_run(need, align, locked);
    if (locked)
        hk_unlock(&hk_emergency_lock);
    return block;
}

size_t emergency_size(const void *address) {
    if (base == 0 || (uintptr_t)address - base >= chunk_count << CHUNK_SHIFT)
        return 0;
    uint32_t here = entry(chunk_of(address));
    size_t size = here >= RUN_UNIT ? run_length(here) << CHUNK_SHIFT : (size_t)1 << here;
    bool starts = (uintptr_t)address % (here >= RUN_UNIT ? CHUNK_BYTES : size) == 0;
    return here != 0 && starts && (here < RUN_UNIT || (here & RUN_FREE) == 0) ? size : 0;
}

/* Twice is once: the seal of a free block says so. */
static void free_block_locked(block_t *block, unsigned shift) {
    if (block->seal == seal_of(block))
        return;
    block->seal = seal_of(block);
    block->next = free_blocks[shift];
    free_blocks[shift] = block;
}

void emergency_free(void *address) {
    size_t chunk = chunk_of(address);
    uint32_t here = entry(chunk);
    if (here >= RUN_UNIT)
        sys_purge(address, run_length(here) << CHUNK_SHIFT);
    if (!hk_try_lock(&hk_emergency_lock))
        return; /* lost */
    if (here >= RUN_UNIT)
        set_entry(chunk, here | RUN_FREE);
    else
        free_block_locked(address, here);
    hk_unlock(&hk_emergency_lock);
}
