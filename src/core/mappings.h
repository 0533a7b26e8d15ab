/* SPDX-License-Identifier: MIT
 *
 * mappings.h: the kernel's list of what is mapped in this process (/proc/self/maps), entry by entry, for reports. It is
 * read into a small buffer on the caller's stack: nothing is allocated, nothing is kept, no lock is taken, so it may
 * run in a signal handler. It costs some 50 us and serves error paths only.
 */
#pragma once

#include "base/base.h"

enum { HK_MAPPING_NAME_MAX = 256 }; /* with the NUL; longer names are cut */

/* 7f1c2000-7f1c4000 rw-p 0001a000 08:01 1234   /usr/lib/libc.so.6 */
typedef struct hk_mapping {
    uintptr_t start, end;
    uintptr_t offset; /* of `start` in the file */
    bool readable, writable;
    const char *name; /* empty when it has none; valid during the visit */
} hk_mapping_t;

/* Called for one entry after the other, by rising address, until it returns false: it has seen enough. */
typedef bool hk_mapping_visit_t(const hk_mapping_t *mapping, void *argument);

/* False when the list cannot be read, as in a confined process. */
bool hk_mappings_read(hk_mapping_visit_t *visit, void *argument);

/* Copies a name, cut as above. */
void hk_mapping_name_copy(char to[HK_MAPPING_NAME_MAX], const char *name);

/* --- The reader of the list, without an environment (for its test) ------------------------------------------------ */

typedef struct hk_mappings_reader {
    hk_mapping_visit_t *visit;
    void *argument;
    bool done;
    size_t length; /* of what has come of the current line; the part beyond `line` is dropped */
    char line[HK_MAPPING_NAME_MAX + 128];
} hk_mappings_reader_t;

void hk_mappings_reader_init(hk_mappings_reader_t *reader, hk_mapping_visit_t *visit, void *argument);

/* Takes the next part of the list, cut anywhere. Returns false once the visitor has seen enough. */
bool hk_mappings_reader_feed(hk_mappings_reader_t *reader, const char *text, size_t length);
