/* SPDX-License-Identifier: MIT
 *
 * Sums of what was allocated and freed stay full once they are, of a site and of all; what is live goes on being right.
 */
#include "rooms.h"
#include "sample/sites.h"

enum { ROOM = 1000, OBJECTS = 3 };

static const site_end_t at_once = {.age_us = 1, .same_thread = true};
static const chance_weight_t large = {UINT64_MAX / 3 * 2, OBJECTS};

static profile_site_t *pair(uint32_t site) {
    site_count_alloc(site, large);
    profile_site_t *of = table_at(PROFILE_SITES, site);
    CHECK_EQ(of->live_bytes, large.bytes);
    CHECK_EQ(hk_profile.header.live_bytes, large.bytes);
    site_count_free(site, large, &at_once);
    CHECK_EQ(of->live_bytes, 0);
    CHECK_EQ(hk_profile.header.live_bytes, 0);
    return of;
}

int main(void) {
    const uintptr_t pcs[] = {0x10000, 0x20000};
    CHECK(sites_begin());
    const uint32_t site = site_of(pcs, 2, 0, ROOM, ROOM);
    CHECK_EQ(pair(site)->alloc_bytes, large.bytes);
    for (unsigned i = 2; i < 5; i++) {
        const profile_site_t *of = pair(site);
        CHECK_EQ(of->alloc_bytes, UINT64_MAX);
        CHECK_EQ(of->free_bytes, UINT64_MAX);
        CHECK_EQ(of->temporary_bytes, UINT64_MAX);
        CHECK_EQ(hk_profile.header.alloc_bytes, UINT64_MAX);
        CHECK_EQ(of->alloc_objects, i * OBJECTS);
    }
    return CHECK_PASS;
}
