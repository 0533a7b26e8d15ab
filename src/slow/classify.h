/* SPDX-License-Identifier: MIT
 *
 * classify.h: what is at an address that the program gave.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"
#include "sys/libc_doors.h"

typedef enum kind {
    KIND_NONE,
    KIND_SLAB,
    KIND_LARGE,
    KIND_HUGE,
    KIND_EMERGENCY,
    KIND_NOTHING,
    KIND_GUARDED,
    KIND_FOREIGN
} kind_t;

typedef struct found {
    kind_t kind;
    unsigned cls; /* of a slab's block; of a run the class whose slab it stands in for, or HK_CLASS_COUNT */
    size_t size;
} found_t;

/* What the program may use at `block`, or a report in the name of `verb` and KIND_NONE. */
found_t classify(const char *verb, void *block, const void *caller);

/* classify where the slot table has nothing. */
found_t classify_apart(const char *verb, const void *block, const void *caller);

/* Whether it was handed out by slow/hardened.h. */
bool found_is_hardened(const found_t *found);

/* What the program may use of it. */
size_t found_usable(const void *block, const found_t *found);

/* True when `block`, in a slab or run of the class, starts a block and is not free; reports otherwise. */
bool classify_is_good(const char *verb, void *block, unsigned cls, const void *caller);

/* As classify_is_good, of the start of a run that the slot table has `entry` for. */
bool classify_run_is_good(const char *verb, void *block, uint32_t entry, const void *caller);

/* Memory of the C library's own allocator goes to it; anything else is a mistake. Where the mappings cannot be read (a
 * confined process, no /proc) and it has handed memory out, the C library is the judge. `errno` is kept. */
bool classify_is_libcs(const void *block, libc_allocator_t *libc);
