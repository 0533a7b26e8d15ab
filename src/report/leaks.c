/* SPDX-License-Identifier: MIT */
#include "report/leaks.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/panic.h"
#include "core/place.h"
#include "core/message.h"
#include "report/reach.h"
#include "sample/blocks.h"
#include "sample/sampler.h"
#include "sys/sys.h"

enum { PLACES_MAX = 20, FRAMES_SHOWN = 24 };

/* What is lost of a site. */
typedef struct place {
    chance_weight_t lost;
    uint64_t blocks, oldest_us, youngest_us;
} place_t;

/* --- Lists -------------------------------------------------------------------------------------------------------- */

static void copy_samples(reach_t *reach) {
    for (uint32_t at = 1; at < table_count(PROFILE_SAMPLES); at++) {
        const profile_sample_t *block = block_at(at);
        if (block->address != 0 && !sample_is_gone(block) && reach->count < reach->capacity)
            reach->blocks[reach->count++] =
                (reach_block_t){block->address, hk_max(block->size + block->slack, 1), at, 0};
    }
}

static void add_place(place_t *places, const profile_sample_t *block) {
    place_t *place = &places[block->site];
    const chance_weight_t weight = chance_weight(hk_max(block->size, 1), block->interval_log2);
    place->lost.bytes += weight.bytes;
    place->lost.objects += weight.objects;
    place->oldest_us = place->blocks == 0 ? block->time_us : hk_min(place->oldest_us, block->time_us);
    place->youngest_us = hk_max(place->youngest_us, block->time_us);
    place->blocks++;
}

/* --- Print -------------------------------------------------------------------------------------------------------- */

static void print_stack(uint32_t stack) {
    char text[HK_PLACE_TEXT_MAX];
    for (unsigned i = 0; stack != 0 && i < FRAMES_SHOWN; i++) {
        const profile_stack_t *node = table_at(PROFILE_STACKS, stack);
        if (node->pc < PROFILE_STACK_CODE_MIN) {
            hk_message("  (the stack is not whole)");
        } else {
            hk_place_describe((const void *)(uintptr_t)node->pc, text);
            hk_message("  from %s", text);
        }
        stack = node->parent;
    }
}

static void print_place(const place_t *place, uint32_t site) {
    const uint64_t now = sample_now_us(), objects = place->lost.objects >> PROFILE_OBJECTS_SHIFT;
    const char *about = hk_profile.header.interval_log2 > 0 ? "about " : "";
    hk_message("leak: %s%lu bytes in %s%lu blocks, allocated %lu to %lu s ago", about,
               (unsigned long)(place->lost.bytes >> PROFILE_BYTES_SHIFT), about, (unsigned long)objects,
               (unsigned long)((now - place->youngest_us) / 1000000),
               (unsigned long)((now - place->oldest_us) / 1000000));
    print_stack(((const profile_site_t *)table_at(PROFILE_SITES, site))->stack);
}

/* The place with the most bytes that was not printed yet; 0: there is none. */
static uint32_t most_of(const place_t *places, uint32_t count) {
    uint32_t most = 0;
    for (uint32_t site = 1; site < count; site++)
        if (places[site].blocks > 0 && (most == 0 || places[site].lost.bytes > places[most].lost.bytes))
            most = site;
    return most;
}

static void print_places(place_t *places, uint32_t count) {
    uint32_t site;
    for (unsigned i = 0; i < PLACES_MAX && (site = most_of(places, count)) != 0; i++) {
        print_place(&places[site], site);
        places[site].blocks = 0;
    }
    if (most_of(places, count) != 0)
        hk_message("leaks at more places; hakmem leaks FILE shows all that HAKMEM_PROFILE=1,out=FILE writes");
}

/* --- All ---------------------------------------------------------------------------------------------------------- */

static size_t report_lost(const reach_t *reach) {
    const uint32_t site_count = table_count(PROFILE_SITES);
    const size_t size = hk_align_up(site_count * sizeof(place_t), sys_page_size());
    place_t *places = sys_map(size);
    size_t lost = 0;
    for (size_t i = 0; i < reach->count && places != NULL; i++) {
        const profile_sample_t *block = block_at(reach->blocks[i].sample);
        if (reach->blocks[i].reached != 0 || hk_read(block->address) != reach->blocks[i].start ||
            hk_read(block->site) >= site_count)
            continue;
        add_place(places, block);
        lost++;
    }
    if (places == NULL)
        return LEAKS_UNKNOWN;
    print_places(places, site_count);
    (void)sys_unmap(places, size);
    return lost;
}

/* What other threads free meanwhile may be shown or not. */
size_t hk_leaks_report(const void *frame, bool may_wait) {
    reach_t reach = {.frame = (uintptr_t)frame};
    if (!sample_was_ever_on() || !reach_begin(&reach, blocks_count()))
        return LEAKS_UNKNOWN;
    if (may_wait) {
        sample_stop();
        hk_lock(&hk_sample_lock);
    }
    const bool known = !may_wait || sample_settle_locked();
    if (known)
        copy_samples(&reach);
    if (may_wait)
        hk_unlock(&hk_sample_lock);
    size_t lost = known && reach_mark(&reach) ? report_lost(&reach) : LEAKS_UNKNOWN;
    reach_end(&reach);
    return lost;
}
