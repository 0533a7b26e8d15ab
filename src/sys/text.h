/* SPDX-License-Identifier: MIT
 *
 * text.h: numbers in the kernel's text files.
 */
#pragma once

#include "base/base.h"

/* The number at `*text`, behind which it moves; UINT64_MAX when there is none ("max", "-1"). */
HK_INLINE uint64_t sys_parse_number(const char **text, const char *end) {
    while (*text < end && **text == ' ')
        (*text)++;
    const char *first = *text;
    uint64_t value = 0;
    for (; *text < end && **text >= '0' && **text <= '9'; (*text)++)
        value = value * 10 + (uint64_t)(**text - '0');
    return *text == first ? UINT64_MAX : value;
}
