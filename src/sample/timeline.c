/* SPDX-License-Identifier: MIT */
#include "sample/timeline.h"

#include "base/relaxed.h"
#include "large/huge.h"
#include "region/area.h"
#include "region/scarce.h"
#include "sys/confined.h"
#include "sys/sys.h"

#include <sys/prctl.h>
#include <string.h>

enum { SPACING_US = 50000 }; /* at least: what is resident takes three system calls to know */

static uint64_t next_us, spacing_us;

bool timeline_begin(void) {
    next_us = spacing_us = SPACING_US;
    return table_begin(PROFILE_THREADS);
}

/* Every second point goes. */
static void halve(void) {
    for (uint32_t i = 1; i < PROFILE_TIMELINE_POINTS / 2; i++)
        *(profile_point_t *)table_at(PROFILE_TIMELINE, i) = *(const profile_point_t *)table_at(PROFILE_TIMELINE, 2 * i);
    table_cut(PROFILE_TIMELINE, PROFILE_TIMELINE_POINTS / 2);
    memset(table_at(PROFILE_TIMELINE, PROFILE_TIMELINE_POINTS / 2), 0,
           PROFILE_TIMELINE_POINTS / 2 * sizeof(profile_point_t));
    spacing_us *= 2;
}

void timeline_note(uint64_t now_us) {
    uint32_t at;
    if (now_us < next_us)
        return;
    if (table_count(PROFILE_TIMELINE) == PROFILE_TIMELINE_POINTS)
        halve();
    next_us = now_us + spacing_us;
    if (!table_append(PROFILE_TIMELINE, &at))
        return;
    const profile_header_t *header = &hk_profile.header;
    *(profile_point_t *)table_at(PROFILE_TIMELINE, at) = (profile_point_t){
        .time_us = now_us,
        .live_bytes = header->live_bytes,
        .live_objects = header->live_objects,
        .resident_bytes = sys_anonymous_bytes(),
        .mapped_bytes = region_claimed_bytes() + region_area_bytes() + huge_bytes(),
        .interval_log2 = header->interval_log2,
    };
    table_commit(PROFILE_TIMELINE);
}

void sample_thread_name(char name[PROFILE_NAME_BYTES]) {
    const unsigned long arguments[4] = {(unsigned long)(uintptr_t)name};
    memset(name, 0, PROFILE_NAME_BYTES);
    if (sys_passage_begin()) {
        (void)sys_prctl(PR_GET_NAME, arguments);
        sys_passage_end();
    }
    name[PROFILE_NAME_BYTES - 1] = '\0';
}

uint32_t thread_note(uint32_t place, uint32_t thread, uint32_t heap, const char name[PROFILE_NAME_BYTES]) {
    const bool is_new = place == 0;
    if (thread == 0 || (is_new && !table_append(PROFILE_THREADS, &place)))
        return 0;
    profile_thread_t *entry = table_at(PROFILE_THREADS, place);
    memcpy(entry->name, name, PROFILE_NAME_BYTES);
    hk_write(entry->heap, heap);
    hk_write(entry->thread, thread);
    if (is_new)
        table_commit(PROFILE_THREADS);
    return place;
}
