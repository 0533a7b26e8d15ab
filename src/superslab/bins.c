/* SPDX-License-Identifier: MIT */
#include "superslab/bins.h"

#include "core/counters.h"
#include "core/panic.h"
#include "core/message.h"
#include "region/index.h"
#include "superslab/dirty.h"
#include "superslab/haste.h"
#include "superslab/huge_pages.h"
#include "superslab/scatter.h"
#include "sys/sys.h"

enum {
    BIN_CLEAN = SLOTS + 1, /* empty superslabs without a dirty slot: used last, when all dirty ones are */
    BIN_LIMIT,
    EMPTY_KEEP_MIN = 2,      /* clean empty superslabs kept for reuse */
    EMPTY_KEEP_SHARE = 16,   /* ... and this part of those in use */
    PRIVATE_BEFORE_HUGE = 8, /* superslabs that a class has before one of huge pages, as its last is filled in part */
    DIRTY_SCAN_MAX = 32,     /* superslabs looked at for a resident stretch that may not be aligned */
    BETWEEN_SCAN_MAX = 32,   /* ... for one that lies across the borders of aligned stretches */
};

/* Private ones: bins[is clean][order]. The slabs of a class have one length, so which of them serves matters less.
 * Declared first: gcc puts it last, behind what each process uses. */
static struct private_bins {
    uint32_t bins[2][ORDER_COUNT];
    uint32_t count; /* of superslabs that became private so far */
} privates[SLOTS_CLASSES_MAX];

/* Guarded by hk_superslab_lock. bins[use][order][room], the room being the number of free slots or BIN_CLEAN; bit room
 * of bin_masks[use][order] says that the bin is not empty. */
static uint32_t bins[SLOTS_USES][ORDER_COUNT][BIN_LIMIT];
static uint64_t bin_masks[SLOTS_USES][ORDER_COUNT];
static size_t empty_count;

static size_t in_use(void) { return pool_count(&hk_pool.superslabs); }

static struct private_bins *private_of(slots_use_t use) {
    hk_assert(use >= SLOTS_USES && use / SLOTS_USES <= SLOTS_CLASSES_MAX);
    return &privates[use / SLOTS_USES - 1];
}

static uint8_t room_for(const superslab_t *s) {
    return s->free_mask == ALL_SLOTS && s->dirty_mask == 0 ? BIN_CLEAN : (uint8_t)hk_popcount32(s->free_mask);
}

static uint32_t *bin_of(const superslab_t *s) {
    return pool_is_private(s) ? &private_of(s->use)->bins[s->was_clean][s->order] : &bins[s->use][s->order][s->room];
}

static void unbin_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(!s->binned || s->previous != 0 || *bin_of(s) == pool_index(s));
    if (!s->binned)
        return;
    if (s->previous != 0)
        pool_record(s->previous)->next = s->next;
    else
        *bin_of(s) = s->next;
    if (s->next != 0)
        pool_record(s->next)->previous = s->previous;
    if (*bin_of(s) == 0 && !pool_is_private(s))
        bin_masks[s->use][s->order] &= ~(UINT64_C(1) << s->room);
    empty_count -= s->room >= SLOTS && !pool_is_private(s);
    s->binned = false;
}

/* Puts the superslab into the bin that its free_mask says, or into none. */
static void rebin_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->in_use && (s->free_mask & s->purging_mask) == 0);
    unbin_locked(s);
    index_set_vacant(pool_index(s), pool_shared_mask(s) == ALL_SLOTS);
    if (s->free_mask == 0)
        return;
    s->order = (uint8_t)pool_largest_order(s->free_mask);
    s->room = room_for(s);
    s->was_clean = s->dirty_mask == 0;
    hk_assert((s->dirty_mask & ~s->free_mask) == 0 && (s->zeros_mask & ~s->dirty_mask) == 0); /* SUPERSLAB-1 */
    hk_assert((s->free_mask & ~s->present_mask) == 0);
    uint32_t *head = bin_of(s);
    s->previous = 0;
    s->next = *head;
    if (*head != 0)
        pool_record(*head)->previous = pool_index(s);
    *head = pool_index(s);
    s->binned = true;
    if (pool_is_private(s))
        return;
    bin_masks[s->use][s->order] |= UINT64_C(1) << s->room;
    empty_count += s->room >= SLOTS;
}

bool pool_take_locked(superslab_t *s, uint32_t mask) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->in_use);
    hk_assert((s->free_mask & mask) == mask);
    bool zeroed = (s->dirty_mask & ~s->zeros_mask & mask) == 0;
    if ((s->hasty_mask & mask) != 0)
        pool_regret_locked(s, mask);
    s->free_mask &= ~mask;
    s->zeros_mask &= ~mask;
    s->small_mask &= ~mask;
    pool_set_dirty_locked(s, s->dirty_mask & ~mask);
    pool_change(&hk_pool.free, -(ptrdiff_t)hk_popcount32(mask));
    rebin_locked(s);
    return zeroed;
}

void pool_give_locked(superslab_t *s, uint32_t mask, bool dirty) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->in_use && mask != 0);
    hk_assert((s->free_mask & mask) == 0 && (mask & ~s->present_mask) == 0);
    s->free_mask |= mask;
    pool_change(&hk_pool.free, (ptrdiff_t)hk_popcount32(mask));
    if (dirty)
        pool_set_dirty_locked(s, s->dirty_mask | mask);
    rebin_locked(s);
}

/* All of its free slots, of which none was dirty. */
static void bring_along_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->dirty_mask == 0);
    pool_set_dirty_locked(s, s->free_mask);
    s->zeros_mask = s->free_mask;
    rebin_locked(s);
}

void pool_give_fresh_locked(superslab_t *s, uint32_t mask, bool brought_along) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    pool_give_locked(s, mask, false);
    if (brought_along)
        bring_along_locked(s);
}

/* A record for a superslab that the pool did not know. Its mapping's advice outlives a superslab. */
static void reset_record_locked(superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(!s->in_use && !s->binned && !s->queued);
    *s = (superslab_t){.in_use = true,
                       .huge = s->huge,
                       .present_mask = ALL_SLOTS,
                       .hasty_mask = s->hasty_mask,
                       .hasty_ms = s->hasty_ms};
}

static void set_use_locked(superslab_t *s, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(!s->binned && (!pool_is_private(s) || pool_is_of(s, use)));
    if (use >= SLOTS_USES && !pool_is_of(s, use))
        private_of(use)->count++;
    s->use = (uint16_t)use;
}

static void count_superslabs_locked(ptrdiff_t count, ptrdiff_t slot_count) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    pool_change(&hk_pool.superslabs, count);
    pool_change(&hk_pool.present, slot_count);
    if (count > 0)
        hk_count_by(superslabs_new, (size_t)count);
    else
        hk_count_by(superslabs_freed, (size_t)-count);
}

slot_t pool_open_locked(size_t slot_count, size_t align, uint32_t tail_mask, slots_use_t use, size_t huge) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(slot_count > 0 && hk_is_pow2(align));
    region_earn_huge_records(pool_records_earn_huge());
    size_t count = pool_superslabs_for(slot_count), first = pool_claim_locked(count, align);
    if (first == 0)
        return 0;
    map_cover((first + count) * SLOTS);
    for (size_t i = first; i < first + count; i++) {
        reset_record_locked(pool_record(i));
        set_use_locked(pool_record(i), use);
    }
    count_superslabs_locked((ptrdiff_t)count, (ptrdiff_t)count * SLOTS);
    hk_assert(huge <= count);
    pool_advise_locked(first, huge, true);
    pool_advise_locked(first + huge, count - huge, false);
    if (slots_are_sparse(use))
        pool_opened_sparse_locked(first, count, slot_count);
    superslab_t *last = pool_record(first + count - 1);
    /* What comes along with a run's last huge page is resident; around slabs of small blocks it will soon be used. */
    if (tail_mask != 0)
        pool_give_fresh_locked(last, tail_mask, last->huge && (slots_are_sparse(use) || slot_count > SLOTS));
    return (slot_t)(first * SLOTS);
}

void pool_close_locked(size_t first, size_t count) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    const uint32_t present = pool_record(first)->present_mask;
    for (superslab_t *s = pool_record(first), *end = s + count; s < end; s++) {
        hk_assert(s->purging_mask == 0 && s->zeros_mask == 0 && s->present_mask == present);
        hk_assert(s->in_use && !s->queued && s->dirty_mask == 0 && (count == 1 || !pool_is_private(s)));
        unbin_locked(s);
        index_set_vacant(pool_index(s), false);
        pool_change(&hk_pool.free, -(ptrdiff_t)hk_popcount32(s->free_mask));
        s->free_mask = 0;
        s->in_use = false;
    }
    count_superslabs_locked(-(ptrdiff_t)count, -(ptrdiff_t)(count * hk_popcount32(present)));
    if (present == ALL_SLOTS)
        region_release(first, count);
    else
        region_release_part(first, present);
}

static void close_superslab_locked(const superslab_t *s) { pool_close_locked(pool_index(s), 1); }

superslab_t *pool_open_part_locked(unsigned least, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(least > 0 && least <= SLOTS);
    size_t present, index = region_alloc_part(least, &present);
    if (index == 0)
        return NULL;
    map_cover((index + 1) * SLOTS);
    superslab_t *s = pool_record(index);
    reset_record_locked(s);
    pool_forget_huge_locked(s);
    s->present_mask = (uint32_t)hk_low_mask64((unsigned)present);
    set_use_locked(s, use % SLOTS_USES);
    count_superslabs_locked(1, (ptrdiff_t)present);
    pool_give_locked(s, s->present_mask, false);
    return s;
}

bool pool_open_at_locked(size_t index, bool huge) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(!pool_knows(index));
    if (!region_alloc_at(index, 1))
        return false;
    map_cover((index + 1) * SLOTS);
    reset_record_locked(pool_record(index));
    set_use_locked(pool_record(index), SLOTS_SPARSE);
    pool_advise_locked(index, 1, huge);
    count_superslabs_locked(1, SLOTS);
    return true;
}

void pool_free_locked(size_t index, uint32_t mask, bool dirty) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(pool_knows(index) && mask != 0);
    superslab_t *s = pool_record(index);
    if (mask == ALL_SLOTS && !dirty && !pool_is_private(s)) {
        close_superslab_locked(s);
        return;
    }
    pool_give_locked(s, mask, dirty);
    if (s->free_mask != s->present_mask)
        return;
    bool part = s->present_mask != ALL_SLOTS;
    if (part)
        pool_set_dirty_locked(s, 0);
    bool enough = empty_count > hk_max(EMPTY_KEEP_MIN, in_use() / EMPTY_KEEP_SHARE);
    if (part || (s->dirty_mask == 0 && enough && !pool_is_private(s)))
        close_superslab_locked(s);
}

void pool_convert_locked(superslab_t *s, slots_use_t use, bool huge) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->in_use && s->free_mask == ALL_SLOTS);
    unbin_locked(s);
    set_use_locked(s, use);
    pool_relist_locked(s);
    /* What has huge pages keeps them for blocks that will fill them. */
    if (s->huge != huge && (huge || slots_are_sparse(use)))
        pool_advise_locked(pool_index(s), 1, huge);
    rebin_locked(s);
}

static bool earns_huge_locked(size_t slot_count, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    bool early = use >= SLOTS_USES && private_of(use)->count < PRIVATE_BEFORE_HUGE;
    return pool_earns_huge_locked(slot_count, use % SLOTS_USES) && (!early || hk_option(HK_OPT_HUGE) == HK_HUGE_FORCE);
}

/* An empty superslab serves either use, and may become private. */
static superslab_t *find_empty_locked(slots_use_t of) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    const uint32_t *empty = bins[of][ORDER_COUNT - 1];
    uint32_t index = empty[SLOTS] != 0 ? empty[SLOTS] : empty[BIN_CLEAN];
    return index != 0 ? pool_record(index) : NULL;
}

/* A sparse superslab of which nothing is resident begins anew, as one from the region does. */
static void reuse_locked(superslab_t *s, size_t slot_count, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(s->free_mask == ALL_SLOTS);
    bool anew = slots_are_sparse(use) && s->dirty_mask == 0;
    hk_count(superslabs_reused);
    if (s->use == use && !anew)
        return;
    pool_convert_locked(s, use, earns_huge_locked(slot_count, use));
    if (!anew)
        return;
    pool_opened_sparse_locked(pool_index(s), 1, slot_count);
    if (s->huge)
        bring_along_locked(s);
}

/* The fullest superslab with an aligned stretch of 2^order slots; the smallest that serves is broken first. */
static superslab_t *find_bin_locked(unsigned order, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(order < ORDER_COUNT);
    for (unsigned u = use; u < SLOTS_USES; u++)
        for (unsigned k = order; k < ORDER_COUNT; k++)
            if (bin_masks[u][k] != 0)
                return pool_record(bins[u][k][hk_ctz64(bin_masks[u][k])]);
    return find_empty_locked(use == SLOTS_DENSE ? SLOTS_SPARSE : SLOTS_DENSE);
}

/* A superslab with `count` dirty slots from a multiple of `align` on, whatever its use, out of the short stretches
 * first; or NULL. A stretch of twice as many slots, less one, has an aligned one in it. */
static superslab_t *find_dirty_locked(unsigned count, unsigned align) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(count > 0 && count <= SLOTS && hk_is_pow2(align));
    unsigned looks = DIRTY_SCAN_MAX, enough = (unsigned)hk_min(count + align - 1, SLOTS);
    for (unsigned length = count; (length = pool_length_from_locked(length)) != 0; length++) {
        length = looks > 0 ? length : (unsigned)hk_max(length, enough);
        for (uint32_t index = pool_of_length_locked(length); index != 0;
             index = pool_record(index)->links[POOL_OF_LENGTH].next) {
            if (pool_stretches(pool_record(index)->dirty_mask, count, align) != 0)
                return pool_record(index);
            if (looks == 0 || --looks == 0)
                break;
        }
    }
    return NULL;
}

/* A superslab in use whose largest aligned stretch is too short, but which has room across such borders. */
static superslab_t *find_between_locked(unsigned count, unsigned order, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(order < ORDER_COUNT && count <= SLOTS);
    unsigned left = BETWEEN_SCAN_MAX;
    for (unsigned k = order > 2 ? order - 2 : 0; k < order; k++)
        for (uint64_t rooms = bin_masks[use][k] & ~hk_low_mask64(count); rooms != 0; rooms &= rooms - 1)
            for (uint32_t i = bins[use][k][hk_ctz64(rooms)]; i != 0; i = pool_record(i)->next) {
                if (pool_stretches(pool_record(i)->free_mask, count, 1) != 0)
                    return pool_record(i);
                if (--left == 0)
                    return NULL;
            }
    return NULL;
}

/* What is resident first. */
static superslab_t *find_private_locked(unsigned order, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    for (unsigned clean = 0; clean < 2; clean++)
        for (unsigned k = order; k < ORDER_COUNT; k++)
            if (private_of(use)->bins[clean][k] != 0)
                return pool_record(private_of(use)->bins[clean][k]);
    superslab_t *s = find_empty_locked(use % SLOTS_USES);
    return s != NULL ? s : find_empty_locked((use + 1) % SLOTS_USES);
}

/* What is resident goes before what is not, or memory would grow while slots of the other use wait for their purge. A
 * huge page in use is resident as a whole. Before an empty superslab come those in use. */
static superslab_t *find_locked(unsigned count, unsigned align, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    unsigned order = hk_log2_ceil(hk_max(count, align));
    if (use >= SLOTS_USES)
        return find_private_locked(order, use);
    superslab_t *s = find_bin_locked(order, use);
    if (s != NULL && ((s->huge && s->room < SLOTS) || pool_stretches(s->dirty_mask, count, align) != 0))
        return s;
    superslab_t *other = find_dirty_locked(count, align);
    if (other == NULL && align == 1 && (s == NULL || s->room >= SLOTS))
        other = find_between_locked(count, order, use);
    return other != NULL ? other : s;
}

slots_t pool_alloc_within_locked(unsigned count, unsigned align, slots_use_t use) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    hk_assert(count > 0 && count <= SLOTS && align <= SLOTS);
    const bool clean = (use & SLOTS_CLEAN) != 0;
    use &= ~(slots_use_t)SLOTS_CLEAN;
    superslab_t *s = find_locked(count, align, use);
    if (s == NULL) {
        slot_t first = pool_open_locked(count, 1, ALL_SLOTS, use, earns_huge_locked(count, use));
        if (first == 0)
            return (slots_t){0};
        s = pool_record(first / SLOTS);
    } else if (s->room >= SLOTS) {
        reuse_locked(s, count, use);
    }
    /* Of a huge page all is resident. */
    const uint32_t wanted = clean && !s->huge ? s->free_mask & ~s->dirty_mask : s->dirty_mask;
    const uint32_t best = pool_stretches(wanted, count, align);
    unsigned at = pool_draw_bit_locked(best != 0 ? best : pool_stretches(s->free_mask, count, align));
    const uint32_t mask = (uint32_t)hk_low_mask64(count) << at;
    bool zeroed = pool_take_locked(s, mask);
    s->small_mask |= slots_are_sparse(use) ? 0 : mask;
    return (slots_t){pool_first_slot(s) + at, zeroed};
}

static void close_private_locked(uint32_t index) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    while (index != 0) {
        superslab_t *s = pool_record(index);
        index = s->next;
        if (s->free_mask == s->present_mask)
            close_superslab_locked(s);
    }
}

/* Those with dirty slots have to be purged first. */
void superslab_close_empty(void) {
    hk_lock(&hk_superslab_lock);
    for (unsigned use = 0; use < SLOTS_USES; use++)
        while (bins[use][ORDER_COUNT - 1][BIN_CLEAN] != 0)
            close_superslab_locked(pool_record(bins[use][ORDER_COUNT - 1][BIN_CLEAN]));
    for (unsigned i = 0; i < SLOTS_CLASSES_MAX && region_is_at_limit(); i++)
        close_private_locked(privates[i].bins[true][ORDER_COUNT - 1]);
    hk_unlock(&hk_superslab_lock);
}

superslab_view_t superslab_view(size_t index) {
    hk_lock(&hk_superslab_lock);
    const superslab_t *s = pool_record(index);
    superslab_view_t view = {s->free_mask, s->dirty_mask, s->present_mask, s->in_use, s->huge};
    hk_unlock(&hk_superslab_lock);
    return view;
}

static size_t check_one_locked(const superslab_t *s) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    size_t bad = 0;
    bool part = s->present_mask != ALL_SLOTS;
    bad += (s->dirty_mask & ~s->free_mask) != 0 || (s->zeros_mask & ~s->dirty_mask) != 0;
    bad += (s->free_mask & ~s->present_mask) != 0;
    bad += part && (s->huge || s->free_mask == s->present_mask);
    bad += s->binned != (s->free_mask != 0);
    bad += (index_vacant_begin(pool_index(s) + 1) <= pool_index(s)) != (pool_shared_mask(s) == ALL_SLOTS);
    bad += s->binned && (s->order != pool_largest_order(s->free_mask) || s->room != room_for(s));
    bad += (s->dirty_mask != 0) != s->queued;
    if (bad != 0)
        hk_message("check: superslab %u: free %x dirty %x present %x binned %d queued %d", pool_index(s), s->free_mask,
                   s->dirty_mask, s->present_mask, s->binned, s->queued);
    return bad;
}

/* Of a bin's list, or a number above `limit`. */
static size_t length_locked(uint32_t index, size_t limit) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    size_t length = 0;
    for (; index != 0 && length <= limit; index = pool_record(index)->next)
        length++;
    return length;
}

/* The bins, walked: what they hold and what the records say must agree. */
static size_t check_bins_locked(size_t binned, size_t limit) {
    hk_assert(hk_lock_is_held(&hk_superslab_lock));
    size_t bins_hold = 0;
    for (unsigned use = 0; use < SLOTS_USES; use++)
        for (unsigned order = 0; order < ORDER_COUNT; order++)
            for (unsigned room = 0; room < BIN_LIMIT; room++)
                bins_hold += length_locked(bins[use][order][room], limit);
    for (unsigned i = 0; i < SLOTS_CLASSES_MAX; i++)
        for (unsigned order = 0; order < ORDER_COUNT; order++)
            bins_hold += length_locked(privates[i].bins[false][order], limit) +
                         length_locked(privates[i].bins[true][order], limit);
    if (bins_hold == binned)
        return 0;
    hk_message("check: superslabs: %zu in bins, %zu flagged", bins_hold, binned);
    return 1;
}

size_t superslab_check(void) {
    size_t bad = 0, free_seen = 0, used_seen = 0, present_seen = 0, binned = 0, queued = 0;
    hk_lock(&hk_superslab_lock);
    size_t limit = map_count() / SLOTS;
    for (size_t i = region_next_used(1); i != 0; i = region_next_used(i + 1)) {
        const superslab_t *s = pool_record(i);
        queued += s->queued;
        binned += s->binned;
        if (!s->in_use)
            continue;
        used_seen++;
        free_seen += hk_popcount32(s->free_mask);
        present_seen += hk_popcount32(s->present_mask);
        bad += check_one_locked(s);
    }
    bad += check_bins_locked(binned, limit) + pool_check_dirty_locked(queued, limit);
    size_t present = pool_count(&hk_pool.present);
    if (free_seen != pool_count(&hk_pool.free) || used_seen != in_use() || present_seen != present) {
        hk_message("check: superslabs %zu, free slots %zu, slots %zu; counted %zu, %zu, %zu", in_use(),
                   pool_count(&hk_pool.free), present, used_seen, free_seen, present_seen);
        bad++;
    }
    hk_unlock(&hk_superslab_lock);
    return bad;
}
