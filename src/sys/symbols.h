/* SPDX-License-Identifier: MIT
 *
 * symbols.h: where loaded libraries have their functions and data, read from their tables of symbols (elf(5)). dlsym
 * would do as much, but where it is depends on the C library: before glibc 2.34 it is in a library of its own, which
 * not every process has, and a library that was linked to a newer one does not run there. The tables are the same
 * everywhere.
 *
 * Symbols are for a start and for slow paths: to look for one takes the lock that the dynamic linker changes its list
 * of libraries under. The caller knows that the library stays. NULL for what is not there, and always in a static
 * program, which has no such tables.
 */
#pragma once

#include "base/base.h"

#include <link.h>

/* An ELF file that is mapped from its beginning on, where its headers are. */
typedef struct elf_image {
    const ElfW(Phdr) * headers;
    unsigned count;
    uintptr_t bias; /* what its own addresses differ by from those in memory */
} elf_image_t;

/* False when none is at `base`, or its program headers lie beyond `size` bytes, which can be read. */
bool elf_image_read(elf_image_t *image, uintptr_t base, size_t size);

/* In the library of this name (DT_SONAME). */
void *symbol_in(const char *library, const char *name);

/* In the first that has it, in the order in which they were loaded: the program's is the first. */
void *symbol_anywhere(const char *name);

/* In the first behind the library or program that this code is linked into. */
void *symbol_behind_us(const char *name);

/* Of the functions that the kernel puts into every process (vdso(7)); in a static program too. */
void *symbol_of_kernel(const char *name);
