/* SPDX-License-Identifier: MIT */
#include "sample/sites.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/panic.h"

enum {
    NO_ROOM = 1,     /* the stack, and the site, for which there is no room */
    PEAK_SHARE = 50, /* the peak is a new one when it is higher by this part */
    TEMPORARY_US = 1000,
};

/* --- Stacks ------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x ^ x >> 32) * UINT64_C(0x94d049bb133111eb);
}

static uint64_t hash_of_stack(const void *entry) {
    const profile_stack_t *node = entry;
    return mix(node->pc, node->parent);
}

static chains_t stacks = {
    .kind = PROFILE_STACKS, .hash = hash_of_stack, .next_offset = offsetof(profile_stack_t, next), .spare_log2 = 1};

static profile_stack_t *stack_at(uint32_t stack) { return table_at(PROFILE_STACKS, stack); }

/* 0 when there is no room. */
static uint32_t stack_make(uint32_t parent, uintptr_t pc, uint32_t most) {
    uint32_t made;
    if (table_count(PROFILE_STACKS) >= most || !table_append(PROFILE_STACKS, &made))
        return 0;
    *stack_at(made) = (profile_stack_t){.pc = pc, .parent = parent};
    if (!chains_put(&stacks, made))
        return 0;
    table_commit(PROFILE_STACKS);
    return made;
}

static uint32_t stack_of_frame(uint32_t parent, uintptr_t pc, uint32_t most) {
    for (uint32_t at = chains_first(&stacks, mix(pc, parent)); at != 0; at = chains_next(&stacks, at))
        if (stack_at(at)->pc == pc && stack_at(at)->parent == parent)
            return at;
    return stack_make(parent, pc, most);
}

uint32_t sites_stack(const uintptr_t *pcs, unsigned count, unsigned mark, uint32_t most) {
    uint32_t stack = mark != 0 ? stack_of_frame(0, mark, most) : 0;
    bool fits = mark == 0 || stack != 0;
    for (unsigned i = count; i > 0 && fits; i--) {
        stack = stack_of_frame(stack, pcs[i - 1], most);
        fits = stack != 0;
    }
    return stack != 0 && fits ? stack : NO_ROOM;
}

/* --- Sites -------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of_site(const void *entry) { return mix(((const profile_site_t *)entry)->stack, 0); }

static chains_t sites = {
    .kind = PROFILE_SITES, .hash = hash_of_site, .next_offset = offsetof(profile_site_t, next), .spare_log2 = 1};

static profile_site_t *site_at(uint32_t site) {
    hk_assert(site <= table_count(PROFILE_SITES));
    return table_at(PROFILE_SITES, site);
}

static uint32_t site_make(uint32_t stack, uint32_t most) {
    uint32_t made;
    if (table_count(PROFILE_SITES) >= most || !table_append(PROFILE_SITES, &made))
        return NO_ROOM;
    *site_at(made) = (profile_site_t){.stack = stack, .peak_epoch = hk_profile.header.peak_epoch};
    if (!chains_put(&sites, made))
        return NO_ROOM;
    table_commit(PROFILE_SITES);
    return made;
}

uint32_t site_of(const uintptr_t *pcs, unsigned count, unsigned mark, uint32_t most_stacks, uint32_t most_sites) {
    const uint32_t stack = sites_stack(pcs, count, mark, most_stacks);
    for (uint32_t at = chains_first(&sites, mix(stack, 0)); at != 0; at = chains_next(&sites, at))
        if (site_at(at)->stack == stack)
            return at;
    return site_make(stack, most_sites);
}

bool sites_begin(void) {
    return table_begin(PROFILE_STACKS) && table_begin(PROFILE_SITES) &&
           stack_make(0, PROFILE_STACK_NO_ROOM, UINT32_MAX) == NO_ROOM && site_make(NO_ROOM, UINT32_MAX) == NO_ROOM &&
           table_count(PROFILE_SITES) == NO_ROOM + 1;
}

void sites_clear(void) {
    chains_clear(&stacks);
    chains_clear(&sites);
}

/* --- Sums --------------------------------------------------------------------------------------------------------- */

/* What was live at the peak is written when it changes for the first time since. */
static profile_site_t *site_to_change(uint32_t index) {
    profile_site_t *site = site_at(index);
    const profile_header_t *header = &hk_profile.header;
    if (site->peak_epoch == header->peak_epoch)
        return site;
    hk_write(site->peak_bytes, site->live_bytes);
    hk_write(site->peak_objects, site->live_objects);
    hk_write_release(site->peak_epoch, header->peak_epoch);
    return site;
}

void sites_note_peak(void) {
    profile_header_t *header = &hk_profile.header;
    if (header->live_bytes <= header->peak_bytes + header->peak_bytes / PEAK_SHARE)
        return;
    hk_write(header->peak_bytes, header->live_bytes);
    hk_write(header->peak_objects, header->live_objects);
    hk_write(header->peak_us, header->elapsed_us);
    hk_add(header->peak_epoch, 1);
}

static void add_live(uint64_t *bytes, uint64_t *objects, chance_weight_t weight) {
    hk_add(*bytes, weight.bytes);
    hk_add(*objects, weight.objects);
}

void site_add_live(uint32_t index, chance_weight_t weight) {
    hk_assert(index >= NO_ROOM);
    profile_site_t *site = site_to_change(index);
    add_live(&site->live_bytes, &site->live_objects, weight);
    add_live(&hk_profile.header.live_bytes, &hk_profile.header.live_objects, weight);
}

/* Modulo 2^64, as the sums are. */
void site_subtract_live(uint32_t index, chance_weight_t weight) {
    site_add_live(index, (chance_weight_t){.bytes = 0 - weight.bytes, .objects = 0 - weight.objects});
}

/* To sums that only grow: those of bytes are full after 10 hours of nothing but pairs of 1 MiB in one thread, and after
 * an hour in ten threads. A full one stays so. */
static void add_up(uint64_t *bytes, uint64_t *objects, chance_weight_t weight) {
    const uint64_t room = UINT64_MAX - hk_read(*bytes);
    hk_add(*bytes, hk_min(weight.bytes, room));
    hk_add(*objects, weight.objects);
}

void site_count_alloc(uint32_t index, chance_weight_t weight) {
    hk_assert(index >= NO_ROOM && index < table_count(PROFILE_SITES));
    profile_site_t *site = site_at(index);
    profile_header_t *header = &hk_profile.header;
    hk_add(site->alloc_samples, 1);
    add_up(&site->alloc_bytes, &site->alloc_objects, weight);
    add_up(&header->alloc_bytes, &header->alloc_objects, weight);
    site_add_live(index, weight);
}

/* From 4^n us to 4^(n+1). */
static unsigned lifetime_place(uint64_t age_us) {
    unsigned place = age_us < 4 ? 0 : hk_msb64(age_us) / 2;
    return place < PROFILE_LIFETIMES ? place : PROFILE_LIFETIMES - 1;
}

void site_count_free(uint32_t index, chance_weight_t weight, const site_end_t *end) {
    hk_assert(index >= NO_ROOM && index < table_count(PROFILE_SITES));
    profile_site_t *site = site_at(index);
    hk_add(site->free_samples, 1);
    add_up(&site->free_bytes, &site->free_objects, weight);
    if (end != NULL)
        hk_add(site->lifetimes[lifetime_place(end->age_us)], weight.objects);
    if (end != NULL && end->same_thread)
        hk_add(site->same_thread_objects, weight.objects);
    if (end != NULL && end->same_thread && end->age_us < TEMPORARY_US)
        add_up(&site->temporary_bytes, &site->temporary_objects, weight);
    site_subtract_live(index, weight);
}
