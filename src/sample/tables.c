/* SPDX-License-Identifier: MIT */
#include "sample/tables.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/panic.h"
#include "sys/sys.h"

enum {
    PIECES = 20,
    TABLE_FIXED_SHIFT = 12, /* entries of the timeline and of threads, at most */
    KINDS = 6,
    BUCKETS_LOG2_MIN = 6,
    ROOM_BYTES = 16 << 10,
    SMALL_BYTES = 4 << 10, /* what is less lies with others in a room */
    LOG2_MASK = 63,        /* in the address of buckets, which is a multiple of 64 */
};

/* Entries of the first piece. What the first samples need of the three tables and their buckets is a page. */
static const uint8_t first_shift[KINDS] = {[PROFILE_STACKS] = 6, [PROFILE_SAMPLES] = 4, [PROFILE_SITES] = 2};

profile_t hk_profile HK_RARE;
hk_lock_t hk_sample_lock = HK_LOCK_INIT(HK_RANK_SAMPLE);

static uint32_t counts[KINDS];

/* --- Memory ------------------------------------------------------------------------------------------------------- */

static char *room;
static size_t room_left;

/* All zeros, and never given back. */
static void *memory_take(size_t bytes) {
    hk_assert(bytes > 0 && bytes % (LOG2_MASK + 1) == 0);
    if (bytes >= SMALL_BYTES)
        return sys_map(hk_align_up(bytes, sys_page_size()));
    if (bytes > room_left) {
        char *fresh = sys_map(ROOM_BYTES);
        if (fresh == NULL)
            return NULL;
        *(volatile char *)fresh = 0; /* a page that is read first costs two faults */
        room = fresh;
        room_left = ROOM_BYTES;
    }
    room_left -= bytes;
    return room + ROOM_BYTES - room_left - bytes;
}

/* To all zeros again. Buckets may be being read. */
static void memory_clear(void *memory, size_t bytes) {
    if (bytes >= SMALL_BYTES)
        sys_purge(memory, hk_align_up(bytes, sys_page_size()));
    else
        for (size_t i = 0; i < bytes / sizeof(uint32_t); i++)
            hk_write(((uint32_t *)memory)[i], 0);
}

/* --- Tables ------------------------------------------------------------------------------------------------------- */

static uint32_t stride_of(profile_kind_t kind) {
    static const uint16_t bytes[KINDS] = {[PROFILE_STACKS] = sizeof(profile_stack_t),
                                          [PROFILE_SAMPLES] = sizeof(profile_sample_t),
                                          [PROFILE_SITES] = sizeof(profile_site_t),
                                          [PROFILE_TIMELINE] = sizeof(profile_point_t),
                                          [PROFILE_THREADS] = sizeof(profile_thread_t)};
    return bytes[kind];
}

/* The places in hk_profile.sections: PIECES for each of the first three tables, one for each of the others. */
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
    if (index >> first_shift[kind] == 0 || kind > PROFILE_SITES)
        return (place_t){0, index};
    unsigned top = hk_msb64(index);
    return (place_t){top - first_shift[kind] + 1, index - (UINT32_C(1) << top)};
}

static size_t piece_bytes(profile_kind_t kind, unsigned piece) {
    const unsigned first = kind > PROFILE_SITES ? TABLE_FIXED_SHIFT : first_shift[kind];
    return ((size_t)1 << (piece == 0 ? first : first + piece - 1)) * stride_of(kind);
}

void *table_at(profile_kind_t kind, uint32_t index) {
    hk_assert((unsigned)kind < KINDS && section_of(kind, place_of(kind, index).piece)->place != 0);
    place_t at = place_of(kind, index);
    return (char *)(uintptr_t)section_of(kind, at.piece)->place + (size_t)at.offset * stride_of(kind);
}

uint32_t table_count(profile_kind_t kind) { return counts[kind]; }

uint32_t table_most(profile_kind_t kind) {
    hk_assert(kind >= PROFILE_STACKS && kind <= PROFILE_SITES);
    return UINT32_C(1) << (first_shift[kind] + PIECES - 1);
}

static bool piece_map(profile_kind_t kind, unsigned piece) {
    hk_assert(piece < pieces_of(kind));
    profile_section_t *section = section_of(kind, piece);
    if (section->place != 0)
        return true;
    void *memory = memory_take(piece_bytes(kind, piece));
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

bool table_begin(profile_kind_t kind) {
    uint32_t none;
    const bool fits = table_append(kind, &none);
    if (fits)
        table_commit(kind);
    return fits;
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
            memory_clear((void *)(uintptr_t)section->place, piece_bytes(kind, piece));
        }
        counts[kind] = 0;
    }
}

/* --- Chains ------------------------------------------------------------------------------------------------------- */

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
    void *memory = memory_take(sizeof(uint32_t) << log2);
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
        memory_clear((void *)(buckets & ~(uintptr_t)LOG2_MASK), sizeof(uint32_t) << (buckets & LOG2_MASK));
    chains->used = 0;
}
