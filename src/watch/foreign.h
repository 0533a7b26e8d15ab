/* SPDX-License-Identifier: MIT
 *
 * foreign.h: what lies at an address that is not ours, for reports. The kernel's list of mappings (/proc/self/maps) is
 * read into a small buffer on the caller's stack: nothing is allocated, nothing is kept, no lock is taken, so it may
 * run in a signal handler. It costs some 50 us and serves error paths only.
 *
 * Two answers are guesses, and good ones: an anonymous mapping that holds the caller's stack pointer is a thread's
 * stack (the kernel names only the first thread's), and a nameless writable mapping that begins where a writable
 * mapping of a file ends holds that file's zero-initialised variables.
 */
#ifndef HK_FOREIGN_H
#define HK_FOREIGN_H

#include "base/base.h"

typedef enum foreign_kind {
    FOREIGN_UNKNOWN, /* the list cannot be read */
    FOREIGN_UNMAPPED,
    FOREIGN_STACK,
    FOREIGN_FILE, /* program, library or any mapped file; `path` says which */
    FOREIGN_ANONYMOUS,
    FOREIGN_BRK, /* the heap that libc grows by brk */
} foreign_kind_t;

enum {
    FOREIGN_PATH_MAX = 256, /* longer paths are cut */
    FOREIGN_TEXT_MAX = FOREIGN_PATH_MAX + 32,
};

typedef struct foreign {
    foreign_kind_t kind;
    char path[FOREIGN_PATH_MAX];
} foreign_t;

void foreign_classify(const void *ptr, foreign_t *out);

/* The same as the DETAIL of a report: "stack", "mapped file PATH", "anonymous memory not from hakmem", "not mapped". */
void foreign_describe(const void *ptr, char text[FOREIGN_TEXT_MAX]);

/* --- The reader of the list, without an environment (for its test) ----------------------------------------------- */

typedef struct foreign_scan {
    uintptr_t address;
    uintptr_t stack_pointer;
    bool done; /* `found` is final */
    foreign_t found;
    uintptr_t bss; /* where zero-initialised variables of `bss_path` would begin */
    char bss_path[FOREIGN_PATH_MAX];
    size_t length; /* of what has come of the current line; the part beyond `line` is dropped */
    char line[FOREIGN_PATH_MAX + 128];
} foreign_scan_t;

void foreign_scan_init(foreign_scan_t *scan, const void *address, const void *stack_pointer);

/* Takes the next part of the list, cut anywhere. Returns false once the answer is known. */
bool foreign_scan_feed(foreign_scan_t *scan, const char *text, size_t length);

#endif
