/* SPDX-License-Identifier: MIT
 *
 * foreign.h: what lies at an address that is not ours, for reports, by the kernel's list of mappings (core/mappings.h).
 *
 * Two answers are guesses, and good ones: an anonymous mapping that holds the caller's stack pointer is a thread's
 * stack (the kernel names only the first thread's), and a nameless writable mapping that begins where a writable
 * mapping of a file ends holds that file's zero-initialised variables.
 */
#pragma once

#include "core/mappings.h"

typedef enum foreign_kind {
    FOREIGN_UNKNOWN, /* the list cannot be read */
    FOREIGN_UNMAPPED,
    FOREIGN_STACK,
    FOREIGN_FILE, /* program, library or any mapped file; `path` says which */
    FOREIGN_ANONYMOUS,
    FOREIGN_BRK, /* the heap that libc grows by brk */
} foreign_kind_t;

enum {
    FOREIGN_PATH_MAX = HK_MAPPING_NAME_MAX,
    FOREIGN_TEXT_MAX = FOREIGN_PATH_MAX + 32,
};

typedef struct foreign {
    foreign_kind_t kind;
    char path[FOREIGN_PATH_MAX];
} foreign_t;

void foreign_classify(const void *ptr, foreign_t *out);

/* What foreign_classify finds, as the DETAIL of a report: "stack", "mapped file PATH", "anonymous memory not from
 * hakmem", "not mapped". */
void foreign_describe(const void *ptr, char text[FOREIGN_TEXT_MAX]);

/* --- Without an environment (for its test) ------------------------------------------------------------------------ */

typedef struct foreign_scan {
    uintptr_t address;
    uintptr_t stack_pointer;
    foreign_t found;
    uintptr_t bss; /* where zero-initialised variables of `bss_path` would begin */
    char bss_path[FOREIGN_PATH_MAX];
} foreign_scan_t;

void foreign_scan_init(foreign_scan_t *scan, const void *address, const void *stack_pointer);

/* An hk_mapping_visit_t; `scan` is a foreign_scan_t. */
bool foreign_visit(const hk_mapping_t *mapping, void *scan);
