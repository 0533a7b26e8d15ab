/* SPDX-License-Identifier: MIT
 *
 * tagged.h: where pointers with a tag come in from the program: the way back from map/pointer.h.
 */
#pragma once

#include "sys/tags.h"

/* tagged_enter where there are tags. */
HK_COLD void *tagged_look(const char *verb, const void *block, const void *caller);

/* The program's pointer without its tag. NULL for NULL; and, after a report in the name of `verb`, where memory in the
 * window has another tag: its block was freed. */
HK_INLINE void *tagged_enter(const char *verb, const void *block, const void *caller) {
    return tags_are_on() ? tagged_look(verb, block, caller) : (void *)(uintptr_t)block;
}
