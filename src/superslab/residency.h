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
