/* SPDX-License-Identifier: MIT */
#include "heap/flush.h"

#include "base/bits.h"
#include "core/panic.h"
#include "heap/lists.h"
#include "heap/remote.h"
#include "heap/wake.h"
#include "limit/limit.h"

enum {
    DOUBLE_FREES_MAX = 4, /* double frees remembered for the report of one flush */
    PREFETCH_AHEAD = 8,
};

typedef struct flush_report {
    void *double_frees[DOUBLE_FREES_MAX];
    unsigned count;
} flush_report_t;

static void note_double_frees(flush_report_t *report, slab_t *slab, unsigned word, uint64_t bits) {
    hk_assert(word < slab_word_count(slab) && bits != 0);
    size_t size = hk_class_info[slab->cls].block_size;
    for (; bits != 0 && report->count < DOUBLE_FREES_MAX; bits &= bits - 1)
        report->double_frees[report->count++] = slab_base(slab) + (word * 64 + hk_ctz64(bits)) * size;
}

/* Whether there is a table to gather other heaps' blocks in. */
static bool gathers(const heap_t *h) { return h != heap_shared() && !hardened_is_on(); }

/* A block of another heap's slab goes to its owner; in company if it can. */
static void give_to_owner(heap_t *h, slab_t *slab, unsigned index, flush_report_t *report) {
    const remote_entry_t word = {heap_remote_key(slab_base(slab), index), UINT64_C(1) << (index % 64)};
    if (gathers(h) ? !heap_remote_note(h, slab_base(slab), slab->cls, index) : heap_remote_give(&word) != 0)
        note_double_frees(report, slab, index / 64, word.bits);
}

/* False when the slab that the block was of is gone: its bit was freed twice, and the slab closed in between. */
static bool is_still(const slab_t *slab, unsigned cls) {
    return atomic_load_explicit(&slab->state, memory_order_relaxed) == SLAB_OPEN && slab->cls == cls;
}

static HK_NOINLINE void give_elsewhere(heap_t *h, unsigned cls, granule_t granule, flush_report_t *report) {
    hk_assert(cls < HK_CLASS_COUNT);
    void *block = map_granule_address(granule);
    slab_t *slab = slab_of(block, cls);
    if (is_still(slab, cls))
        give_to_owner(h, slab, class_block_index(&hk_classes[cls], block), report);
    else if (report->count < DOUBLE_FREES_MAX)
        report->double_frees[report->count++] = block;
}

/* Gives back the leading blocks that lie in the slab at `base`; the first one does. Returns how many. Neighbours are
 * often freed one after the other: a word of bits is written when the next block has another one, so that neighbours
 * do not wait for each other's stores. */
HK_INLINE unsigned give_slab_locked(slab_t *slab, granule_t base, size_class_t c, const granule_t *blocks,
                                    unsigned count, flush_report_t *report) {
    hk_assert(count > 0 && blocks[0] >= base);
    uint64_t offset = (blocks[0] - base) << HK_GRANULE_SHIFT;
    unsigned index = class_index_at(&c, (uint32_t)offset), double_frees = 0, i = 0;
    uint64_t *word = slab->free_bits + index / 64, bits = *word;
    for (;;) {
        const uint64_t bit = UINT64_C(1) << (index % 64);
        if (hk_unlikely((bits & bit) != 0)) {
            note_double_frees(report, slab, index / 64, bit);
            double_frees++;
        }
        bits |= bit;
        if (++i == count || (offset = (blocks[i] - base) << HK_GRANULE_SHIFT) > c.mask)
            break;
        index = class_index_at(&c, (uint32_t)offset);
        if (slab->free_bits + index / 64 == word)
            continue;
        *word = bits;
        word = slab->free_bits + index / 64;
        bits = *word;
    }
    *word = bits;
    slab_count_given(slab, i - double_frees);
    return i;
}

/* What is in a magazine lies in the window. As the lock is held, what the map says of the heap's own slabs stays true.
 * Blocks of other heaps' slabs are left over, as the first of `blocks`; returns how many. */
static unsigned give_blocks_locked(heap_t *h, unsigned cls, granule_t *blocks, unsigned count, flush_report_t *report) {
    hk_assert(hk_lock_is_held(&h->lock));
    const size_class_t c = hk_classes[cls];
    const uint32_t own = map_tag(h->front.id) | cls; /* the tag of a hardened heap is none */
    const size_t first_slot = ~((size_t)hk_class_info[cls].slab_slots - 1);
    hk_assert(count > 0);
    unsigned left = 0;
    granule_t ahead = blocks[count - 1];
    for (unsigned i = 0; i < count;) {
        granule_t block = blocks[i];
        slab_t *slab = slab_at((slot_t)(map_granule_slot(block) & first_slot));
        if (i + PREFETCH_AHEAD < count)
            ahead = blocks[i + PREFETCH_AHEAD];
        __builtin_prefetch(slab_at((slot_t)(map_granule_slot(ahead) & first_slot)), 1);
        if (hk_unlikely(map_entry(map_granule_slot(block)) != own)) {
            blocks[left++] = block;
            i++;
            continue;
        }
        i += give_slab_locked(slab, block & ~((granule_t)c.mask >> HK_GRANULE_SHIFT), c, blocks + i, count - i, report);
        if (slab->free_count >= slab->settle_at)
            heap_settle_locked(h, slab);
    }
    return left;
}

/* The `count` blocks that have been in the magazine longest leave it; they lie in the array behind what remains,
 * until the next push. They leave before they go: their owners may hand them out at once, and who looks for a block
 * in all magazines must not find it here then. For that the count needs no order of its own: whoever gets a block
 * has it through its owner's lock, through the push and the exchange of a message, or through the pool's lock,
 * and sees what came before. Where more remain than leave, the latest of them come first. */
static granule_t *leave_locked(heap_t *h, unsigned cls, unsigned count) {
    hk_assert(hk_lock_is_held(&h->lock));
    hk_assert(count > 0 && count <= heap_magazine_count(h, cls));
    magazine_t *magazine = &h->front.magazines[cls];
    granule_t *array = h->class_stats[cls].array;
    unsigned rest = (unsigned)heap_magazine_count(h, cls) - count;
    if (rest == 0) {
        granule_t top = magazine->top;
        hk_write(magazine->below, array - 1);
        /* Release: for a child whose fork took no lock, a block that is counted lies on top. */
        hk_write_release(magazine->top, 0);
        hk_write(array[0], top); /* until the next push or refill */
        return array;
    }
    unsigned in_array = rest - 1, swaps = count < in_array ? count : in_array; /* the one on top stays there */
    granule_t *oldest = array + 1, *newest = oldest + in_array + count - swaps;
    for (unsigned i = 0; i < swaps; i++) {
        granule_t leaves = oldest[i];
        hk_write(oldest[i], newest[i]);
        hk_write(newest[i], leaves);
    }
    /* Release: pairs with the acquire in is_in_magazine. */
    hk_write_release(magazine->below, array + rest - 1);
    return oldest + in_array;
}

static void give_all_elsewhere(heap_t *h, unsigned cls, const granule_t *blocks, unsigned count,
                               flush_report_t *report) {
    for (unsigned i = 0; i < count; i++)
        give_elsewhere(h, cls, blocks[i], report);
}

static void report_double_frees(const flush_report_t *report, unsigned cls) {
    for (unsigned i = 0; i < report->count; i++)
        hk_misuse_found("double free of", report->double_frees[i], "%u-byte block, free",
                        hk_class_info[cls].block_size);
}

/* Runs leave the magazine for the pool. */
static void give_runs(heap_t *h, unsigned cls, const granule_t *blocks, unsigned count) {
    hk_assert(cls >= HK_CLASS_COUNT && cls < HK_MAGAZINE_COUNT);
    for (unsigned i = 0; i < count; i++) {
        void *block = map_granule_address(blocks[i]);
        /* Whoever frees it a second time takes its tag away. */
        if (map_lookup(block) == (h->front.tag | cls) && large_is_live(block)) {
            large_tag(block, HK_OWNER_NONE, 0);
            (void)large_free(&h->large, block, !limit_is_near());
        } else {
            hk_misuse_found("double free of", block, "large block, free");
        }
    }
}

double_frees_t heap_take_double_frees_locked(heap_t *h) {
    hk_assert(hk_lock_is_held(&h->lock));
    double_frees_t double_frees = h->double_frees;
    h->double_frees = (double_frees_t){0};
    return double_frees;
}

void heap_report_double_frees(const heap_t *h, const double_frees_t *double_frees) {
    if (hk_likely(double_frees->count == 0))
        return;
    if (double_frees->block != NULL)
        hk_misuse_found("double free of", double_frees->block,
                        "%u-byte block, one of %u, found when other threads' frees came in", double_frees->block_size,
                        double_frees->count);
    else
        hk_misuse_found("double free in", h, "heap %u, %u blocks, found when other threads' frees came in", h->front.id,
                        double_frees->count);
}

void magazine_flush(heap_t *h, unsigned cls, unsigned count) {
    flush_report_t report = {.count = 0};
    heap_lock(h);
    granule_t *blocks = leave_locked(h, cls, count);
    unsigned left = cls < HK_CLASS_COUNT ? give_blocks_locked(h, cls, blocks, count, &report) : 0;
    h->class_stats[cls].flushed += count;
    h->class_stats[cls].flushes++;
    heap_count_freed_locked(h, cls, count - left); /* of the others their owners count */
    double_frees_t double_frees = heap_take_double_frees_locked(h);
    heap_unlock(h);
    if (cls >= HK_CLASS_COUNT)
        give_runs(h, cls, blocks, count);
    give_all_elsewhere(h, cls, blocks, left, &report);
    heap_remote_post_much(h);
    h->streak_total += count * (size_t)hk_class_info[cls].block_size;
    /* A thread that only frees has its ticks. */
    h->tick_flushed += (uint64_t)count * hk_min(hk_class_info[cls].block_size, HEAP_TICK_MID_BYTES);
    if (h->tick_flushed >= HEAP_TICK_BYTES && hk_read(h->front.countdown) >= 0)
        heap_run_out(h);
    if (hk_unlikely(report.count > 0))
        report_double_frees(&report, cls);
    heap_report_double_frees(h, &double_frees);
    heap_memory_freed(h);
}

void heap_give_batch(heap_t *h, unsigned cls, granule_t *blocks, unsigned count, unsigned counted) {
    flush_report_t report = {.count = 0};
    heap_lock(h);
    unsigned left = cls < HK_CLASS_COUNT ? give_blocks_locked(h, cls, blocks, count, &report) : 0;
    hk_add(h->front.magazines[cls].pushes, counted);
    hk_add(h->class_stats[cls].flushed, counted);
    heap_count_freed_locked(h, cls, count - left);
    if (!gathers(h)) /* else it counts with the table */
        h->posted_bytes += left * (size_t)hk_class_info[cls].block_size;
    bool much = heap_posted_much(h);
    heap_unlock(h);
    give_all_elsewhere(h, cls, blocks, left, &report);
    if (hk_unlikely(report.count > 0))
        report_double_frees(&report, cls);
    if (much)
        heap_memory_freed_much(); /* the owners may be asleep */
    else
        heap_memory_freed(h);
}

void magazine_give_one(heap_t *h, unsigned cls, void *block) {
    granule_t granule = map_granule(block);
    if (cls >= HK_CLASS_COUNT)
        give_runs(h, cls, &granule, 1);
    heap_give_batch(h, cls, &granule, 1, 1);
}
