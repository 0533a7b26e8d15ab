/* SPDX-License-Identifier: MIT */
#include "sample/tables.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/panic.h"
#include "sys/sys.h"

enum {
    PIECES = 16,
    FIRST_SHIFT = 10,       /* entries of the first piece */
    TABLE_FIXED_SHIFT = 12, /* entries of the timeline and of threads, at most */
    KINDS = 6,
    BUCKETS_LOG2_MIN = 9,
};

profile_t hk_profile;
hk_lock_t hk_sample_lock = HK_LOCK_INIT(HK_RANK_SAMPLE);

static uint32_t counts[KINDS];

/* --- Tables ------------------------------------------------------------------------------------------------------- */

static uint32_t stride_of(profile_kind_t kind) {
    static const uint16_t bytes[KINDS] = {[PROFILE_STACKS] = sizeof(profile_stack_t),
                                          [PROFILE_SAMPLES] = sizeof(profile_sample_t),
                                          [PROFILE_SITES] = sizeof(profile_site_t),
                                          [PROFILE_TIMELINE] = sizeof(profile_point_t),
                                          [PROFILE_THREADS] = sizeof(profile_thread_t)};
    return bytes[kind];
}

/* The places in hk_profile.sections: 16 for each of the first three tables, one for each of the others. */
static profile_section_t *section_of(profile_kind_t kind, unsigned piece) {
    hk_assert(kind >= PROFILE_STACKS && piece < PIECES);
    const unsigned before =
        kind <= PROFILE_SITES ? (kind - PROFILE_STACKS) * PIECES : 3 * PIECES + kind - PROFILE_TIMELINE;
    return &hk_profile.sections[before + piece];
}

static unsigned pieces_of(profile_kind_t kind) { return kind <= PROFILE_SITES ? PIECES : 1; }

typedef struct place {
    unsigned piece;
    uint32_t offset; /* in entries */
} place_t;

static place_t place_of(profile_kind_t kind, uint32_t index) {
    hk_assert((unsigned)kind < KINDS);
    if (index >> FIRST_SHIFT == 0 || kind > PROFILE_SITES)
        return (place_t){0, index};
    unsigned top = hk_msb64(index);
    return (place_t){top - FIRST_SHIFT + 1, index - (UINT32_C(1) << top)};
}

static size_t piece_bytes(profile_kind_t kind, unsigned piece) {
    uint32_t entries = UINT32_C(1) << (kind > PROFILE_SITES ? TABLE_FIXED_SHIFT
                                       : piece == 0         ? FIRST_SHIFT
                                                            : FIRST_SHIFT + piece - 1);
    return hk_align_up((size_t)entries * stride_of(kind), sys_page_size());
}

void *table_at(profile_kind_t kind, uint32_t index) {
    hk_assert((unsigned)kind < KINDS && section_of(kind, place_of(kind, index).piece)->place != 0);
    place_t at = place_of(kind, index);
    return (char *)(uintptr_t)section_of(kind, at.piece)->place + (size_t)at.offset * stride_of(kind);
}

uint32_t table_count(profile_kind_t kind) { return counts[kind]; }

static bool piece_map(profile_kind_t kind, unsigned piece) {
    hk_assert(piece < pieces_of(kind));
    profile_section_t *section = section_of(kind, piece);
    if (section->place != 0)
        return true;
    void *memory = sys_map(piece_bytes(kind, piece));
    if (memory == NULL)
        return false;
    hk_write(section->kind, (uint32_t)kind);
    hk_write(section->stride, stride_of(kind));
    hk_write(section->place, (uint64_t)(uintptr_t)memory);
    return true;
}

bool table_append(profile_kind_t kind, uint32_t *index) {
    *index = counts[kind];
    place_t at = place_of(kind, *index);
    bool fits = at.piece < pieces_of(kind) && (kind <= PROFILE_SITES || *index >> TABLE_FIXED_SHIFT == 0);
    return fits && piece_map(kind, at.piece);
}

void table_commit(profile_kind_t kind) {
    place_t at = place_of(kind, counts[kind]++);
    /* Release: who reads from outside and finds the entry counted finds it whole, as far as machines order that. */
    hk_write_release(section_of(kind, at.piece)->bytes, (uint64_t)(at.offset + 1) * stride_of(kind));
}

void table_cut(profile_kind_t kind, uint32_t count) {
    hk_assert(count <= counts[kind]);
    counts[kind] = count;
    hk_write(section_of(kind, 0)->bytes, (uint64_t)count * stride_of(kind));
}

void tables_clear(void) {
    for (unsigned kind = PROFILE_STACKS; kind < KINDS; kind++) {
        for (unsigned piece = 0; piece < pieces_of(kind); piece++) {
            profile_section_t *section = section_of(kind, piece);
            if (section->bytes == 0)
                continue;
            hk_write(section->bytes, 0);
            sys_purge((void *)(uintptr_t)section->place, piece_bytes(kind, piece));
        }
        counts[kind] = 0;
    }
}

/* --- Chains ------------------------------------------------------------------------------------------------------- */

enum { LOG2_MASK = 63 };

static uint32_t *bucket_of(uintptr_t buckets, uint64_t hash) {
    return (uint32_t *)(buckets & ~(uintptr_t)LOG2_MASK) + (hash >> (64 - (buckets & LOG2_MASK)));
}

static uint32_t *next_of(const chains_t *chains, uint32_t entry) {
    return (uint32_t *)((char *)table_at(chains->kind, entry) + chains->next_offset);
}

/* Acquire: pairs with the release in chains_remove, so who finds an entry gone finds what was done before it went. Who
 * has a block knows of what was written before it was handed out. An array that was left for a larger one stays as it
 * was then, so it says of every entry that was put into it that there may be one. */
uint32_t chains_first(const chains_t *chains, uint64_t hash) {
    uintptr_t buckets = atomic_load_explicit(&chains->buckets, memory_order_acquire);
    return buckets == 0 ? 0 : hk_read_acquire(*bucket_of(buckets, hash));
}

uint32_t chains_next(const chains_t *chains, uint32_t entry) {
    hk_assert(entry != 0);
    return *next_of(chains, entry);
}

static void link_to(const chains_t *chains, uintptr_t buckets, uint32_t entry) {
    hk_assert(entry != 0 && buckets != 0);
    uint32_t *bucket = bucket_of(buckets, chains->hash(table_at(chains->kind, entry)));
    *next_of(chains, entry) = *bucket;
    hk_write(*bucket, entry);
}

/* Into a larger array, chain by chain. */
static bool grow(chains_t *chains, unsigned log2) {
    hk_assert(log2 > 0 && log2 <= LOG2_MASK);
    uintptr_t old = atomic_load_explicit(&chains->buckets, memory_order_relaxed);
    void *memory = sys_map(sizeof(uint32_t) << log2);
    if (memory == NULL)
        return false;
    const uintptr_t fresh = (uintptr_t)memory | log2;
    for (size_t i = 0; old != 0 && i < (size_t)1 << (old & LOG2_MASK); i++)
        for (uint32_t entry = ((uint32_t *)(old & ~(uintptr_t)LOG2_MASK))[i]; entry != 0;) {
            uint32_t next = chains_next(chains, entry);
            link_to(chains, fresh, entry);
            entry = next;
        }
    /* Release: pairs with the acquire in chains_first. The old array stays mapped: it may be being read. */
    atomic_store_explicit(&chains->buckets, fresh, memory_order_release);
    return true;
}

bool chains_put(chains_t *chains, uint32_t entry) {
    uintptr_t buckets = atomic_load_explicit(&chains->buckets, memory_order_relaxed);
    unsigned log2 = buckets & LOG2_MASK;
    if ((buckets == 0 || (uint64_t)chains->used << chains->spare_log2 >> log2 != 0) &&
        !grow(chains, buckets == 0 ? BUCKETS_LOG2_MIN : log2 + 1) && buckets == 0)
        return false;
    link_to(chains, atomic_load_explicit(&chains->buckets, memory_order_relaxed), entry);
    chains->used++;
    return true;
}

void chains_remove(chains_t *chains, uint32_t entry) {
    hk_assert(entry != 0 && chains->used > 0);
    uintptr_t buckets = atomic_load_explicit(&chains->buckets, memory_order_relaxed);
    uint32_t *at = bucket_of(buckets, chains->hash(table_at(chains->kind, entry)));
    while (*at != entry)
        at = next_of(chains, *at);
    /* Release: pairs with the acquire in chains_first. */
    hk_write_release(*at, *next_of(chains, entry));
    chains->used--;
}

void chains_clear(chains_t *chains) {
    uintptr_t buckets = atomic_load_explicit(&chains->buckets, memory_order_relaxed);
    if (buckets != 0)
        sys_purge((void *)(buckets & ~(uintptr_t)LOG2_MASK),
                  hk_align_up(sizeof(uint32_t) << (buckets & LOG2_MASK), sys_page_size()));
    chains->used = 0;
}
