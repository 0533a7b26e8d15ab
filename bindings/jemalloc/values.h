/* SPDX-License-Identifier: MIT
 *
 * values.h: the table of the names that mallctl knows.
 */
#ifndef HAKMEM_JEMALLOC_VALUES_H
#define HAKMEM_JEMALLOC_VALUES_H

#include "hakmem.h"

#include <sys/types.h>

typedef enum kind { KIND_BOOL, KIND_U32, KIND_U64, KIND_SIZE, KIND_SSIZE, KIND_TEXT, KIND_NONE } kind_t;

typedef union value {
    bool is_on;
    unsigned u32;
    uint64_t u64;
    size_t size;
    ssize_t ssize;
    const char *text;
} value_t;

enum { INDEX_BITS = 32 };

/* `index` is the number in the name, in place of its `*`, with that of a second `*` in the upper INDEX_BITS; `of` what
 * the row has for it. Both return 0 or an errno value. */
typedef struct row {
    const char *name;
    kind_t kind;
    int (*read)(size_t index, const char *of, value_t *value); /* NULL: nothing to read */
    int (*act)(size_t index,
               const value_t *given); /* of names that are written or only called; NULL: read-only. `given`
                                                       is NULL when nothing was */
    const char *of;
} row_t;

/* NULL behind the last. */
const row_t *values_row(size_t number);

#endif
