/* SPDX-License-Identifier: MIT
 *
 * residency.h: how much of a stretch of memory is resident, in the few words that decisions need.
 */
#pragma once

#include "base/base.h"

typedef enum residency {
    RESIDENCY_UNKNOWN,
    RESIDENCY_NONE,
    RESIDENCY_SOME,
    RESIDENCY_FULL /* all but an eighth at most */
} residency_t;

/* Of the pages of [from, from + size), at most a superslab's, `from` being the start of one. */
residency_t residency_of(const char *from, size_t size);

/* Of the superslab at `from`; where that is full, of its slots in the mask. Unknown when there is none. */
residency_t residency_of_slots(const char *from, uint32_t mask);
