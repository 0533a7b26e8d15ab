/* SPDX-License-Identifier: MIT
 *
 * rooms.h: starting the rooms below the one under test, for tests of region/ and above. A test calls the function of
 * its own room; each starts those below it.
 */
#ifndef HK_TEST_ROOMS_H
#define HK_TEST_ROOMS_H

#include "check.h"
#include "core/options.h"
#include "map/map.h"
#include "region/region.h"
#include "slab/size_class.h"

static inline void start_region(void) {
    hk_options_init(NULL);
    CHECK_EQ(region_init(), 0);
}

static inline void start_map(void) {
    start_region();
    map_init();
}

static inline void start_slab(void) {
    start_map();
    classes_init();
}

/* xorshift64*: enough to vary a test, and the same every time. */
static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static inline bool all_zeros(const void *memory, size_t size) {
    const uint64_t *words = memory;
    for (size_t i = 0; i < size / sizeof *words; i++)
        if (words[i] != 0)
            return false;
    return true;
}

/* Runs `body` in a child that must end well. */
static inline void in_child(void (*body)(void)) {
    char text[2048];
    int status = check_child(body, 2, text, sizeof text);
    if (status != 0)
        fprintf(stderr, "%s", text);
    CHECK_EQ(status, 0);
}

#endif
