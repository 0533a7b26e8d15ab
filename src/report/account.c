/* SPDX-License-Identifier: MIT */
#include "report/account.h"

#include "base/bits.h"
#include "core/panic.h"
#include "heap/slab_walk.h"
#include "large/huge.h"
#include "large/large.h"
#include "region/region.h"
#include "superslab/superslab.h"
#include "sys/sys.h"

#include <string.h>

enum { PAGES_MAX = HK_SUPERSLAB_SIZE / 4096 };

/* Pages of one superslab, or of a piece of that size of anything else. */
typedef struct pages {
    unsigned char resident[PAGES_MAX];
    bool guessed; /* all that may be resident is taken to be */
} pages_t;

static void look(pages_t *pages, const void *address, size_t size) {
    int error = sys_resident(address, size, pages->resident);
    pages->guessed = error != 0 && error != ENOMEM; /* that: nothing is mapped there */
    if (error != 0)
        memset(pages->resident, pages->guessed, sizeof pages->resident);
}

/* Of a part, what is not present may be somebody else's. */
static void look_at_present(pages_t *pages, slot_t first, uint32_t present_mask) {
    if (present_mask == UINT32_MAX) {
        look(pages, map_slot_address(first), HK_SUPERSLAB_SIZE);
        return;
    }
    pages_t one;
    size_t a_slot = HK_SLOT_SIZE / sys_page_size();
    *pages = (pages_t){.guessed = false};
    for (; present_mask != 0; present_mask &= present_mask - 1) {
        unsigned at = hk_ctz64(present_mask);
        look(&one, map_slot_address(first + at), HK_SLOT_SIZE);
        memcpy(&pages->resident[at * a_slot], one.resident, a_slot);
        pages->guessed |= one.guessed;
    }
}

/* Resident bytes of [from, to), offsets in what was looked at. */
static size_t resident_bytes(const pages_t *pages, size_t from, size_t to) {
    hk_assert(to <= HK_SUPERSLAB_SIZE);
    size_t page = sys_page_size(), sum = 0;
    while (from < to) {
        size_t next = hk_min(to, hk_align_down(from, page) + page);
        sum += (pages->resident[from / page] & 1) != 0 ? next - from : 0;
        from = next;
    }
    return sum;
}

static uint64_t range_resident(const void *start, size_t size) {
    pages_t pages;
    uint64_t sum = 0;
    for (size_t done = 0; done < size; done += HK_SUPERSLAB_SIZE) {
        size_t piece = hk_min(size - done, HK_SUPERSLAB_SIZE);
        look(&pages, (const char *)start + done, piece);
        sum += resident_bytes(&pages, 0, piece);
    }
    return sum;
}

/* `base` is where the slab begins in what was looked at. */
static void add_slab(account_t *account, const pages_t *pages, const slab_t *slab, size_t base, bool huge) {
    const size_class_info_t *info = &hk_class_info[slab->cls];
    size_t slab_end = base + ((size_t)info->slab_slots << HK_SLOT_SHIFT), size = info->block_size;
    size_t resident = resident_bytes(pages, base, slab_end);
    account->slabs += resident;
    for (unsigned used = 0; used < slab->block_count;) {
        unsigned end, first = slab_next_stretch(slab, used, &end);
        account->blocks_used[slab->cls] += resident_bytes(pages, base + used * size, base + first * size);
        used = end;
    }
    size_t touched = slab->peak_count * size;
    if (huge && slab->zeroed && resident > touched)
        account->huge_page_waste += resident - touched;
}

static void add_superslab(account_t *account, slab_walk_t *walk, size_t index, bool *run_is_live) {
    hk_assert(index > 0);
    superslab_view_t view = superslab_view(index);
    if (!view.in_use)
        return;
    pages_t pages;
    slot_t first = (slot_t)(index * HK_SLOTS_PER_SUPERSLAB);
    look_at_present(&pages, first, view.present_mask);
    for (unsigned i = 0; i < HK_SLOTS_PER_SUPERSLAB; i++) {
        uint32_t entry = map_entry(first + i);
        size_t base = (size_t)i << HK_SLOT_SHIFT;
        if (entry != 0 && !map_is_run(entry)) {
            slab_t *slab = slab_walk_at(walk, first + i);
            if (slab != NULL)
                add_slab(account, &pages, slab, base, view.huge);
            continue;
        }
        bool clean = ((view.free_mask & ~view.dirty_mask) >> i & 1) != 0;
        size_t bytes = clean && pages.guessed ? 0 : resident_bytes(&pages, base, base + HK_SLOT_SIZE);
        if (entry != 0 && entry != HK_MAP_RUN_BODY)
            *run_is_live = large_is_live(map_slot_address(first + i));
        if (entry == 0)
            account->retained += bytes;
        else if (*run_is_live)
            account->runs_live += bytes;
        else
            account->runs_cached += bytes;
        if (view.huge && clean)
            account->huge_page_waste += bytes;
    }
    slab_walk_let_go(walk);
}

static void add_resident(void *sum, const void *start, size_t size) { *(uint64_t *)sum += range_resident(start, size); }

void heap_account(account_t *account) {
    *account = (account_t){0};
    slab_walk_t walk = {.all = true, .patient = true};
    bool run_is_live = false;
    for (size_t index = region_next_used(1); index != 0; index = region_next_used(index + 1))
        add_superslab(account, &walk, index, &run_is_live);
    huge_for_each(add_resident, &account->huge, false);
    region_area_for_each(add_resident, &account->metadata);
}
