/* SPDX-License-Identifier: MIT */
#include "slab/slab.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/counters.h"
#include "core/panic.h"
#include "core/message.h"
#include "map/meta.h"
#include "superslab/superslab.h"

#include <string.h>

enum {
    COLOR_PAGE = 4096,
    COLOR_BLOCK_MAX = 704,
    DENSE_BLOCK_MAX = 2048, /* programs touch every page of blocks up to this size */
    CLOSED_MAX = 32,        /* slabs of a class, closed last, whose places are known */
};

/* Where slabs of blocks of pages were closed last, by class above the tiny ones. Hints, so no order between them
 * matters: the slots may serve something else by now. */
typedef struct closed_places {
    _Atomic unsigned count;
    _Atomic slot_t first[CLOSED_MAX];
} closed_places_t;

static closed_places_t closed[HK_CLASS_COUNT - HK_TINY_CLASSES] HK_RARE;

static size_t bitmap_bytes(unsigned words) { return hk_align_up(words * sizeof(uint64_t), HK_CACHE_LINE); }

static bool place_bits(slab_t *slab) {
    hk_assert(slab->block_count > 0);
    slab->free_bits = &slab->inline_free;
    if (slab->block_count <= SLAB_INLINE_BLOCKS)
        return true;
    uint64_t *bits = meta_alloc(bitmap_bytes(slab_word_count(slab)));
    if (bits == NULL)
        return false;
    slab->free_bits = bits;
    return true;
}

static void return_bits(slab_t *slab) {
    /* Later readers of the record (reports) find a word that stays. */
    uint64_t *bits = slab->free_bits;
    slab->free_bits = &slab->inline_free;
    if (bits != &slab->inline_free)
        meta_free(bits, bitmap_bytes(slab_word_count(slab)));
}

static void fill_bits(slab_t *slab) {
    hk_assert(slab->free_count == slab->block_count);
    unsigned left = slab->block_count;
    for (unsigned w = 0; left > 0; w++) {
        unsigned here = left < 64 ? left : 64;
        slab->free_bits[w] = hk_low_mask64(here);
        left -= here;
    }
}

/* The first block behind an offset that is the slot's own, whatever class comes there: a slot that is used again
 * touches the pages that it touched before. Larger blocks begin with that offset's page, so as not to straddle two. */
static uint16_t first_block_of(slot_t slot, const size_class_info_t *info) {
    uint32_t offset = (slot * UINT32_C(0x9e3779b1) >> 8) % (uint32_t)HK_SLOT_SIZE;
    offset &= ~(info->block_size <= COLOR_BLOCK_MAX ? HK_CACHE_LINE - 1u : COLOR_PAGE - 1u);
    uint32_t block = (offset + info->block_size - 1) / info->block_size;
    return (uint16_t)(block < info->block_count ? block : 0);
}

static void note_closed(unsigned cls, slot_t first) {
    hk_assert(cls >= HK_TINY_CLASSES && cls < HK_CLASS_COUNT);
    closed_places_t *places = &closed[cls - HK_TINY_CLASSES];
    unsigned at = atomic_fetch_add_explicit(&places->count, 1, memory_order_relaxed);
    atomic_store_explicit(&places->first[at % CLOSED_MAX], first, memory_order_relaxed);
}

/* A place whose slots are all dirty, or 0. */
static slot_t take_closed(unsigned cls) {
    hk_assert(cls >= HK_TINY_CLASSES && cls < HK_CLASS_COUNT);
    closed_places_t *places = &closed[cls - HK_TINY_CLASSES];
    for (unsigned i = 0; i < CLOSED_MAX; i++) {
        unsigned at = atomic_fetch_sub_explicit(&places->count, 1, memory_order_relaxed) - 1;
        slot_t first = atomic_exchange_explicit(&places->first[at % CLOSED_MAX], 0, memory_order_relaxed);
        if (first == 0)
            return 0;
        if (slots_take_dirty(first, hk_class_info[cls].slab_slots))
            return first;
    }
    return 0;
}

static slots_use_t use_of(const size_class_info_t *info) {
    return info->block_size <= DENSE_BLOCK_MAX ? SLOTS_DENSE : SLOTS_SPARSE;
}

_Static_assert((unsigned)HK_CLASS_COUNT <= (unsigned)SLOTS_CLASSES_MAX, "each class may have superslabs of its own");

/* Slots for a slab. A program may use the first page of each block only; where blocks begin as they did before, it is
 * the same pages. */
static slots_t take_slots(unsigned cls, const size_class_info_t *info, bool is_filled) {
    const slots_use_t use = slots_use_of_class(cls, is_filled ? use_of(info) : SLOTS_SPARSE);
    slot_t same = use_of(info) == SLOTS_SPARSE ? take_closed(cls) : 0;
    return same != 0 ? (slots_t){same, false}
                     : slots_alloc(info->slab_slots, info->slab_slots, is_filled ? use : use | SLOTS_CLEAN);
}

HK_COLD slab_t *slab_open(unsigned cls, uint32_t owner, bool is_filled) {
    hk_assert(cls < HK_CLASS_COUNT && owner >= HK_OWNER_SHARED && owner < HK_OWNER_LIMIT);
    const size_class_info_t *info = &hk_class_info[cls];
    slots_t got = take_slots(cls, info, is_filled);
    if (got.first == 0)
        return NULL;
    /* Not for explicit heaps: there may be many, with a few blocks each. */
    if (got.zeroed && is_filled && use_of(info) == SLOTS_DENSE && owner < HK_OWNER_EXPLICIT)
        slots_prefault(got.first, info->slab_slots);
    slab_t *slab = slab_at(got.first);
    slab->next = slab->previous = slab->taker = 0;
    slab->free_count = slab->block_count = info->block_count;
    slab->peak_count = slab->word_hint = 0;
    slab->handed_out = 0;
    slab->first_block = first_block_of(got.first, info);
    slab->cls = (uint8_t)cls;
    slab->list = SLAB_LIST_NONE;
    slab->zeroed = got.zeroed;
    slab->used_in_full = false;
    slab->age = got.zeroed ? SLAB_AGE_PURGED : SLAB_AGE_NEW;
    if (!place_bits(slab)) {
        slots_free(got.first, info->slab_slots, !got.zeroed);
        return NULL;
    }
    fill_bits(slab);
    slab->fenced = slots_fence_at_times(got.first + info->slab_slots);
    map_reset_live(got.first, info->slab_slots);
    atomic_store_explicit(&slab->owner, owner, memory_order_relaxed);
    /* Release: pairs with the acquire in slab_block_is_free, which then finds a bitmap of so many words. */
    atomic_store_explicit(&slab->state, SLAB_OPEN, memory_order_release);
    map_set(got.first, info->slab_slots, map_tag(owner) | cls);
    if (got.zeroed)
        hk_count(slabs_new);
    else
        hk_count(slabs_reused);
    return slab;
}

HK_COLD void slab_close(slab_t *slab) {
    hk_assert(slab_is_whole(slab));
    hk_assert(slab_is_empty(slab) && slab->list == SLAB_LIST_NONE);
    slot_t first = slab_slot(slab);
    unsigned cls = slab->cls, slots = hk_class_info[cls].slab_slots;
    if (slab->used_in_full)
        slots_count_used(-(ptrdiff_t)slots);
    map_set(first, slots, 0);
    atomic_store_explicit(&slab->state, SLAB_CLOSED, memory_order_relaxed);
    atomic_store_explicit(&slab->owner, HK_OWNER_NONE, memory_order_relaxed);
    return_bits(slab);
    if (slab->fenced)
        slots_unfence(first + slots);
    slots_free(first, slots, slab->peak_count > 0 || !slab->zeroed); /* from here on the record is another's */
    if (use_of(&hk_class_info[cls]) == SLOTS_SPARSE)
        note_closed(cls, first);
}

void slab_close_live(slab_t *slab) {
    slab->free_count = slab->block_count;
    slab_close(slab);
}

void slab_set_owner(slab_t *slab, uint32_t owner) {
    hk_assert(slab->list == SLAB_LIST_NONE);
    hk_assert(owner >= HK_OWNER_SHARED && owner < HK_OWNER_LIMIT);
    atomic_store_explicit(&slab->owner, owner, memory_order_relaxed);
    map_set(slab_slot(slab), hk_class_info[slab->cls].slab_slots, map_tag(owner) | slab->cls);
}

/* Stores the blocks of `bits` downwards from `end`; block 0 of the word is at `base`, `size` is that of a block. */
static void store_blocks(granule_t *end, granule_t base, size_t size, uint64_t bits) {
    if (bits == UINT64_MAX) {
        for (unsigned i = 0; i < 64; i++)
            *--end = base + i * size;
        return;
    }
    for (; bits != 0; bits &= bits - 1)
        *--end = base + hk_ctz64(bits) * size;
}

static uint64_t lowest_bits(uint64_t bits, unsigned count) {
    uint64_t rest = bits;
    for (unsigned i = 0; i < count && rest != 0; i++)
        rest &= rest - 1;
    return bits ^ rest;
}

/* Takes up to `want` of `bits` of word `w` downwards to `end`. Returns how many. */
static unsigned take_bits(slab_t *slab, unsigned w, uint64_t bits, granule_t *end, unsigned want) {
    hk_assert(w < slab_word_count(slab));
    if (bits == 0)
        return 0;
    size_t size = hk_class_info[slab->cls].block_size >> HK_GRANULE_SHIFT;
    unsigned have = hk_popcount64(bits);
    if (have > want) {
        bits = lowest_bits(bits, want);
        have = want;
    }
    slab->free_bits[w] ^= bits;
    store_blocks(end, map_granule(slab_base(slab)) + (size_t)w * 64 * size, size, bits);
    return have;
}

/* The word of first_block goes round too: from that block up, then from the word's first. */
static unsigned take_first_word(slab_t *slab, unsigned w, granule_t *end, unsigned want) {
    uint64_t below = hk_low_mask64(slab->first_block % 64);
    unsigned got = take_bits(slab, w, slab->free_bits[w] & ~below, end, want);
    return got + take_bits(slab, w, slab->free_bits[w] & below, end - got, want - got);
}

/* The first time that all of its blocks are out. */
static void note_full(slab_t *slab) {
    if (slab->used_in_full)
        return;
    slab->used_in_full = true;
    slots_count_used(hk_class_info[slab->cls].slab_slots);
}

static void note_taken(slab_t *slab, uint64_t inline_before, unsigned count) {
    hk_assert(count <= slab->free_count);
    slab->handed_out |= inline_before & ~slab->inline_free;
    slab->free_count = (uint16_t)(slab->free_count - count);
    unsigned out = (unsigned)slab->block_count - slab->free_count;
    if (out > slab->peak_count)
        slab->peak_count = (uint16_t)out;
    if (slab->free_count == 0)
        note_full(slab);
}

unsigned slab_take(slab_t *slab, granule_t *end, unsigned want) {
    hk_assert(slab_is_whole(slab));
    hk_assert(want > 0);
    uint64_t inline_before = slab->inline_free;
    unsigned words = slab_word_count(slab), first = slab->first_block / 64u;
    unsigned got = 0, passed = slab->word_hint;
    for (; passed < words; passed++) {
        unsigned w = first + passed < words ? first + passed : first + passed - words;
        got += passed == 0 ? take_first_word(slab, w, end, want)
                           : take_bits(slab, w, slab->free_bits[w], end - got, want - got);
        if (got == want)
            break;
    }
    slab->word_hint = (uint16_t)passed;
    slab->age = SLAB_AGE_NEW;
    note_taken(slab, inline_before, got);
    return got;
}

void *slab_take_one(slab_t *slab, block_past_t *past) {
    hk_assert(slab->free_count > 0);
    uint64_t handed_before = slab->handed_out;
    granule_t granule = 0;
    (void)slab_take(slab, &granule + 1, 1);
    void *block = map_granule_address(granule);
    unsigned index = class_block_index(&hk_classes[slab->cls], block);
    bool known = slab->zeroed && slab->block_count <= SLAB_INLINE_BLOCKS;
    *past = known && (handed_before >> index & 1) == 0 ? BLOCK_ZEROED : BLOCK_USED;
    return block;
}

uint64_t slab_give(slab_t *slab, unsigned word, uint64_t bits) {
    hk_assert(slab_is_whole(slab));
    hk_assert(word < slab_word_count(slab));
    uint64_t before = slab->free_bits[word];
    slab->free_bits[word] = before | bits;
    slab_count_given(slab, hk_popcount64(bits & ~before));
    return before & bits;
}

HK_SNAPSHOT bool slab_block_is_free(const slab_t *slab, unsigned index) {
    /* Acquire: pairs with the release in slab_open. The slab may have become another one, of fewer blocks. */
    if (atomic_load_explicit(&slab->state, memory_order_acquire) != SLAB_OPEN || index >= slab->block_count)
        return false;
    const uint64_t *bits = hk_read(slab->free_bits);
    if (bits == &slab->inline_free && index >= SLAB_INLINE_BLOCKS)
        return false;
    return (hk_read(bits[index / 64]) >> (index % 64) & 1) != 0;
}

uint64_t slab_stretch_bits(unsigned word, unsigned first, unsigned end) {
    hk_assert(first < end && word * 64 < end);
    unsigned from = first > word * 64 ? first - word * 64 : 0;
    unsigned to = end - word * 64 < 64 ? end - word * 64 : 64;
    return hk_low_mask64(to) & ~hk_low_mask64(from);
}

/* The first block from `from` on that is free, or is not: `flip` all ones. block_count: there is none. */
static unsigned next_where(const slab_t *slab, unsigned from, uint64_t flip) {
    for (unsigned at = from; at < slab->block_count; at = (at / 64 + 1) * 64) {
        uint64_t left = (slab->free_bits[at / 64] ^ flip) >> (at % 64);
        if (left != 0)
            return (unsigned)hk_min(at + hk_ctz64(left), slab->block_count);
    }
    return slab->block_count;
}

unsigned slab_next_stretch(const slab_t *slab, unsigned from, unsigned *end) {
    hk_assert(from <= slab->block_count);
    unsigned first = next_where(slab, from, 0);
    *end = next_where(slab, first, ~UINT64_C(0));
    return first;
}

HK_COLD void slab_take_stretch(slab_t *slab, unsigned first, unsigned end) {
    hk_assert(first < end && end <= slab->block_count);
    hk_assert(end - first <= slab->free_count);
    uint64_t inline_before = slab->inline_free;
    for (unsigned w = first / 64; w * 64 < end; w++)
        slab->free_bits[w] &= ~slab_stretch_bits(w, first, end);
    slab->handed_out |= inline_before & ~slab->inline_free;
    slab->free_count = (uint16_t)(slab->free_count - (end - first));
}

static size_t check_bits(const slab_t *slab, unsigned *free_seen) {
    size_t bad = 0;
    for (unsigned w = 0; w < slab_word_count(slab); w++) {
        uint64_t bits = slab->free_bits[w];
        unsigned here = slab->block_count - w * 64 < 64 ? slab->block_count - w * 64 : 64;
        *free_seen += hk_popcount64(bits);
        bad += (bits & ~hk_low_mask64(here)) != 0;
        unsigned words = slab_word_count(slab), first = slab->first_block / 64u;
        bad += bits != 0 && (w >= first ? w - first : w + words - first) < slab->word_hint;
    }
    return bad;
}

HK_COLD size_t slab_check(const slab_t *slab) {
    unsigned free_seen = 0;
    size_t bad = check_bits(slab, &free_seen);
    bad += free_seen != slab->free_count;
    if (slab->block_count <= SLAB_INLINE_BLOCKS)
        bad += (hk_low_mask64(slab->block_count) & ~slab->handed_out & ~slab->inline_free) != 0;
    uint32_t owner = atomic_load_explicit(&slab->owner, memory_order_relaxed);
    for (unsigned i = 0; i < hk_class_info[slab->cls].slab_slots; i++)
        bad += map_entry(slab_slot(slab) + i) != (map_tag(owner) | slab->cls);
    if (bad != 0)
        hk_message("check: slab at %p, class %u, owner %u: %u of %u blocks free, counted %u", (void *)slab_base(slab),
                   slab->cls, owner, slab->free_count, slab->block_count, free_seen);
    return bad;
}
