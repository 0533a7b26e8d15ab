/* SPDX-License-Identifier: MIT
 *
 * module.h: which program or library a code address is in, where its unwind tables are, and how these are read.
 *
 *   of the program itself    by the kernel's AT_PHDR: always there, also in a static or confined program
 *   of what was loaded       by _dl_find_object, where libc has it (sys/libc_doors.h): three nanoseconds
 *   elsewhere                by the kernel's list of mappings, once for each module: an entry of a table that only
 *                            grows. Its headers are read anew before its tables are, as another library may have come
 *                            to its place.
 *
 * Nothing here allocates, locks or is called back; all may run in a signal handler.
 *
 * MODULE-1  No byte outside [start, end) is read.
 * MODULE-2  A byte is read only in [safe_start, safe_end), which the module's own headers name as one readable segment,
 *           or on a page that the kernel has just read (sys_is_readable). So tables that lie cannot make us fault.
 * MODULE-3  Nothing keeps a module from being unmapped by dlclose while it is read. Therefore tables are read only of
 *           the program and the C library, which stay, and of modules that have a frame on the stack that is being
 *           unwound: to unload one that the calling thread will return to is a mistake of the program that it does
 *           not survive. unwind.c says how that is known.
 */
#pragma once

#include "base/base.h"

typedef struct unwind_module {
    uintptr_t start, end;
    uintptr_t tables;               /* .eh_frame_hdr; 0: none */
    uintptr_t safe_start, safe_end; /* equal: not known, and every page is asked for */
    bool stays;                     /* the program or the C library, which are never unloaded */
    uint32_t place;                 /* in the table; 0: it is not from there */
} unwind_module_t;

/* False when `pc` is in none, as code made at run time is. */
bool unwind_module_find(uintptr_t pc, unwind_module_t *module);

/* To be called before its tables are read. False when it is another by now. */
bool unwind_module_open(unwind_module_t *module);

/* --- Reading ------------------------------------------------------------------------------------------------------ */

/* A place in a module's tables. Once a read was outside of it, `bad` is set and all reads give 0. */
typedef struct unwind_bytes {
    unwind_module_t *module;
    uintptr_t at, end;
    bool bad;
} unwind_bytes_t;

uint64_t unwind_read(unwind_bytes_t *from, unsigned size); /* unsigned, of 1, 2, 4 or 8 bytes */
uint64_t unwind_read_uleb(unwind_bytes_t *from);
int64_t unwind_read_sleb(unwind_bytes_t *from);
/* A pointer in one of the encodings of .eh_frame (DW_EH_PE_*); a relative one as an address, `form_only` as it
 * stands. */
uintptr_t unwind_read_encoded(unwind_bytes_t *from, unsigned encoding, bool form_only);

/* --- Without an environment (for its test) ------------------------------------------------------------------------ */

/* The module whose ELF header is at `base`. */
bool unwind_module_read(uintptr_t base, unwind_module_t *module);

/* By the list of mappings, with its table. */
bool unwind_module_listed(uintptr_t pc, unwind_module_t *module);
